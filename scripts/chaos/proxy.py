"""TCP proxies between Herald and its servers that can be shut in three ways; a process of its own.

As a program: one argument NAME=PORT for each proxy. Prints the proxies' own ports as a line of JSON, then obeys lines
`NAME MODE`, each answered by `ok`:

forward  lets everything through; what was held back goes on its way
hole     nothing moves, nothing is closed: packets seem to get lost
cut      resets every connection, new ones are let through
refuse   resets every connection and listens no more
to:PORT  as `cut`, and new connections lead to this port
"""

import json
import selectors
import socket
import struct
import subprocess
import sys
import threading

_CHUNK = 65536
_HELD_MAXIMUM = 4 * _CHUNK


class Side:
    """One socket of a connection, and the bytes that wait to be written to it."""

    def __init__(self, stream, proxy):
        self.stream = stream
        self.proxy = proxy
        self.other = None
        self.waiting = bytearray()
        self.has_ended = False
        self.is_shut = False


class Proxy:
    def __init__(self, target):
        self.target = target
        self.mode = "forward"
        self.sides = set()
        self.port = 0
        self.listener = None
        self.listen()

    def listen(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.listener.listen(256)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]


class ProxyServer:
    def __init__(self, targets):
        self.selector = selectors.DefaultSelector()
        self.proxies = {name: Proxy(port) for name, port in targets.items()}
        for proxy in self.proxies.values():
            self.watch(proxy)

    def watch(self, proxy):
        self.selector.register(proxy.listener, selectors.EVENT_READ, proxy)

    def run(self):
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        print(json.dumps({name: proxy.port for name, proxy in self.proxies.items()}), flush=True)
        while True:
            for key, events in self.selector.select():
                if key.data is None:
                    line = sys.stdin.readline()
                    if not line:
                        return
                    self.obey(*line.split())
                elif isinstance(key.data, Proxy):
                    self.accept(key.data)
                else:
                    self.move(key.data, events)

    def close(self):
        for proxy in self.proxies.values():
            for side in list(proxy.sides):
                self.drop(side)
            if proxy.listener:
                proxy.listener.close()
        self.selector.close()

    def obey(self, name, mode):
        proxy = self.proxies[name]
        if mode.startswith("to:"):
            proxy.target, mode = int(mode.removeprefix("to:")), "cut"
        if mode in ("cut", "refuse"):
            for side in list(proxy.sides):
                self.drop(side)
        if mode == "refuse" and proxy.listener:
            if proxy.mode != "hole":
                self.selector.unregister(proxy.listener)
            proxy.listener.close()
            proxy.listener = None
        if mode in ("forward", "cut"):
            mode = "forward"
            if not proxy.listener:
                proxy.listen()
                self.watch(proxy)
            elif proxy.mode == "hole":
                self.watch(proxy)
        if mode == "hole" and proxy.mode == "forward":
            self.selector.unregister(proxy.listener)
        proxy.mode = mode
        for side in list(proxy.sides):
            self.update(side)
        print("ok", flush=True)

    def accept(self, proxy):
        # An earlier event of this turn may have changed the mode.
        if proxy.mode != "forward":
            return
        try:
            client, _ = proxy.listener.accept()
        except OSError:
            return
        server = socket.socket()
        try:
            server.connect(("127.0.0.1", proxy.target))
        except OSError:
            server.close()
            self.reset(client)
            return
        near, far = Side(client, proxy), Side(server, proxy)
        near.other, far.other = far, near
        for side in (near, far):
            side.stream.setblocking(False)
            side.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            proxy.sides.add(side)
            self.update(side)

    def update(self, side):
        """The events that the selector waits for on this socket."""
        events = 0
        if side.proxy.mode == "forward":
            if not side.has_ended and len(side.other.waiting) < _HELD_MAXIMUM:
                events |= selectors.EVENT_READ
            if side.waiting:
                events |= selectors.EVENT_WRITE
        known = self.selector.get_map().get(side.stream.fileno())
        if not events and known:
            self.selector.unregister(side.stream)
        elif events and not known:
            self.selector.register(side.stream, events, side)
        elif events and known.events != events:
            self.selector.modify(side.stream, events, side)

    def move(self, side, events):
        # An earlier event of this turn may have dropped or shut it.
        if side not in side.proxy.sides or side.proxy.mode != "forward":
            return
        try:
            if events & selectors.EVENT_READ:
                data = side.stream.recv(_CHUNK)
                if data:
                    side.other.waiting += data
                else:
                    side.has_ended = True
                self.write(side.other)
            if events & selectors.EVENT_WRITE:
                self.write(side)
        except BlockingIOError:
            pass
        except OSError:
            self.drop(side)
            return
        if side.is_shut and side.other.is_shut:
            self.drop(side)
            return
        self.update(side)
        self.update(side.other)

    def write(self, side):
        if side.waiting:
            try:
                del side.waiting[:side.stream.send(side.waiting)]
            except BlockingIOError:
                return
        if not side.waiting and side.other.has_ended and not side.is_shut:
            side.is_shut = True
            side.stream.shutdown(socket.SHUT_WR)

    def drop(self, side):
        for one in (side, side.other):
            if one not in one.proxy.sides:
                continue
            one.proxy.sides.discard(one)
            if self.selector.get_map().get(one.stream.fileno()):
                self.selector.unregister(one.stream)
            self.reset(one.stream)

    @staticmethod
    def reset(stream):
        try:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        stream.close()


class ProxyProcess:
    """The program, and its proxies by name."""

    def __init__(self, processes, targets, log):
        arguments = [f"{name}={port}" for name, port in targets.items()]
        self.process = processes.start(
            [sys.executable, __file__, *arguments], log, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ports = json.loads(self.process.stdout.readline())
        self.lock = threading.Lock()

    def set(self, name, mode):
        with self.lock:
            self.process.stdin.write(f"{name} {mode}\n")
            self.process.stdin.flush()
            if self.process.stdout.readline() != "ok\n":
                raise RuntimeError("the proxy ended")


if __name__ == "__main__":
    ProxyServer({name: int(port) for name, port in (argument.split("=") for argument in sys.argv[1:])}).run()
