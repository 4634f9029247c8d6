"""A client on Python's h2: it sends given requests and records the answers."""

import json
import socket
import time

import h2.config
import h2.connection
import h2.events
import h2.settings
from simulator import APP, DEVICE

PAYLOAD = b'{"aps":{"alert":"Hello"}}'


class Client:
    def __init__(self, port, trust=None):
        """`trust`: an SSL context, for TLS."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        # Sends small requests at once, without waiting for acknowledgements.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if trust:
            self.socket = trust.wrap_socket(self.socket, server_hostname="localhost")
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()
        self.events = []
        self.is_closed = False
        self.received = b""
        # Frames after GOAWAY, which h2 treats as the end: (type, stream).
        self.later_frames = []

    def receive(self, data):
        """Gives h2 one frame after the other."""
        self.received += data
        while len(self.received) >= 9:
            size = 9 + int.from_bytes(self.received[:3], "big")
            if len(self.received) < size:
                break
            frame, self.received = self.received[:size], self.received[size:]
            if any(isinstance(event, h2.events.ConnectionTerminated) for event in self.events):
                self.later_frames.append((frame[3], int.from_bytes(frame[5:9], "big")))
            else:
                self.events += self.h2.receive_data(frame)

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def close(self):
        self.socket.close()

    def post(self, token=DEVICE, payload=PAYLOAD, extra=(), topic=APP, kind="alert"):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [
            (":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", f"/3/device/{token}"),
            ("apns-topic", topic), ("apns-push-type", kind), *extra])
        self.h2.send_data(stream, payload, end_stream=True)
        self.flush()
        return stream

    def read(self, seconds):
        """Reads once, for at most this long; false if nothing came."""
        self.socket.settimeout(max(seconds, 0.001))
        try:
            data = self.socket.recv(65536)
        except (TimeoutError, socket.timeout):
            return False
        except ConnectionError:
            data = b""
        if not data:
            self.is_closed = True
            return False
        self.receive(data)
        self.flush()
        return True

    def until(self, kind, seconds=5, **fields):
        """Reads until such an event comes; None if it does not come in time."""
        deadline = time.monotonic() + seconds
        while True:
            for event in self.events:
                if isinstance(event, kind) and all(getattr(event, name) == value for name, value in fields.items()):
                    return event
            left = deadline - time.monotonic()
            if left <= 0 or self.is_closed:
                return None
            self.read(left)

    def until_closed(self, seconds=5):
        """Reads until the server has ended the connection; whether it did in time."""
        deadline = time.monotonic() + seconds
        while not self.is_closed and time.monotonic() < deadline:
            self.read(deadline - time.monotonic())
        return self.is_closed

    def status(self, stream):
        answer = self.until(h2.events.ResponseReceived, stream_id=stream)
        return dict(answer.headers)[":status"] if answer else None

    def body(self, stream):
        """What came on the stream, a part for each DATA frame."""
        return [event.data for event in self.events
                if isinstance(event, h2.events.DataReceived) and event.stream_id == stream and event.data]

    def outcome(self, stream, seconds=5):
        """The end of a request: `STATUS reason`, `reset CODE`, `dropped`, `not processed` or `silence`."""
        deadline = time.monotonic() + seconds
        while True:
            for event in self.events:
                if isinstance(event, h2.events.StreamEnded) and event.stream_id == stream:
                    return self.told(stream)
                if isinstance(event, h2.events.StreamReset) and event.stream_id == stream:
                    return f"reset {int(event.error_code)}"
                if isinstance(event, h2.events.ConnectionTerminated):
                    if event.last_stream_id < stream:
                        return "not processed"
                    # h2 treats GOAWAY as the end; the answer is in the frames after it.
                    if (1, stream) in self.later_frames:
                        return "answered"
            if self.is_closed:
                return "dropped"
            if time.monotonic() >= deadline:
                return "silence"
            self.read(deadline - time.monotonic())

    def told(self, stream):
        status = self.status(stream)
        body = b"".join(self.body(stream))
        try:
            return f"{status} {json.loads(body)['reason']}"
        except (ValueError, KeyError):
            return f"{status} {body.decode()}".strip()

    def limit(self):
        return self.h2.remote_settings.max_concurrent_streams
