"""Processes with sessions of their own, ended by their ids; should this program be killed, a watcher ends them."""

import os
import random
import signal
import socket
import subprocess
import sys
import time

_reservations = []


class Failure(Exception):
    """This machine or a program of the run failed; ends the run."""


def free_port():
    """A port without a listener, below the range of outgoing connections, and reserved as LoopbackPort.swift does."""
    for _ in range(500):
        port = random.SystemRandom().randrange(12000, 28000)
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0herald-port-{port}")
        except OSError:
            reservation.close()
            continue
        _reservations.append(reservation)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise Failure("found no free port on 127.0.0.1")


def wait_until(what, seconds, check, every=0.05):
    """The first true result of `check`; Failure if there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not within {seconds:g} s")
        time.sleep(every)


class Processes:
    """All processes of a run."""

    def __init__(self):
        self._running = []
        self._has_ended = False
        # Its standard input ends with our process, for any reason.
        self._watcher = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, text=True, start_new_session=True)

    def start(self, arguments, log, environment=None, **options):
        """Starts a process; what it writes is appended to the file `log`."""
        if self._has_ended:
            raise Failure("the run has ended")
        with open(log, "ab") as file:
            options = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file} | options
            process = subprocess.Popen(arguments, env=environment, start_new_session=True, **options)
        self._running.append(process)
        self._tell(process.pid)
        return process

    def signal(self, process, number):
        """To the process and all that it started."""
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass

    def kill(self, process):
        """kill -9; returns when it is gone."""
        self.signal(process, signal.SIGKILL)
        process.wait()
        self._forget(process)

    def stop(self, process, seconds):
        """SIGTERM; returns the exit status, None if it had to be killed."""
        self.signal(process, signal.SIGTERM)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
        # Its children may outlive it.
        self.kill(process)
        return status

    def end_all(self):
        self._has_ended = True
        for process in reversed(self._running[:]):
            self.signal(process, signal.SIGCONT)
            self.stop(process, 5)
        self._watcher.stdin.close()
        self._watcher.wait()

    def _forget(self, process):
        if process in self._running:
            self._running.remove(process)
            self._tell(-process.pid)

    def _tell(self, number):
        self._watcher.stdin.write(f"{number}\n")
        self._watcher.stdin.flush()


def _watch():
    """Reads ids of process groups from standard input; a negative one has ended. At the end of input, kills those that are left."""
    groups = set()
    for line in sys.stdin:
        number = int(line)
        if number > 0:
            groups.add(number)
        else:
            groups.discard(-number)
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _watch()
