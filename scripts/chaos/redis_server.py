"""A private Redis that can be stopped, killed and paused, and comes back on its port with its data."""

import pathlib
import shutil
import signal
import socket

from processes import Failure, free_port, wait_until


class Redis:
    def __init__(self, processes, folder):
        self.processes = processes
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.port = free_port()
        self.program = shutil.which("redis-server")
        if not self.program:
            raise Failure("redis-server is not installed; run make setup")
        self.process = None
        self.start()

    def start(self):
        self.process = self.processes.start(
            [self.program, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder), "--save", "",
             # Killed, it still has all that it confirmed: with `everysec` it may answer up to 2 s before it writes.
             "--appendonly", "yes", "--appendfsync", "no"], self.folder / "redis.log")
        wait_until("Redis", 60, self._answers, every=0.02)

    def _answers(self):
        if self.process.poll() is not None:
            raise Failure(f"Redis ended; see {self.folder}/redis.log")
        try:
            return self.command("PING") == "+PONG"
        except OSError:
            return False

    def command(self, *words):
        """The first line of the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as client:
            client.sendall((" ".join(words) + "\r\n").encode())
            return client.makefile("r").readline().strip()

    def stop(self):
        self.processes.stop(self.process, 30)

    def kill(self):
        self.processes.kill(self.process)

    def mark(self):
        """What it has written down so far, for `rewind`."""
        log = self._log()
        return log, log.stat().st_size

    def rewind(self, mark):
        """Killed, and back as it was at the mark: a replica that lagged, or a backup. If it rewrote its log meanwhile, it is killed only."""
        log, size = mark
        self.kill()
        if log == self._log():
            with open(log, "r+b") as file:
                file.truncate(size)
        self.start()

    def _log(self):
        """The log that it appends to now."""
        return max((self.folder / "appendonlydir").glob("*.incr.aof"), key=lambda path: int(path.suffixes[-3][1:]))

    def pause(self):
        self.processes.signal(self.process, signal.SIGSTOP)

    def resume(self):
        self.processes.signal(self.process, signal.SIGCONT)
