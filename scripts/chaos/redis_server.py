"""A private Redis that can be stopped, killed and paused, and comes back on its port with its data; a replica may take its place."""

import pathlib
import shutil
import signal
import socket

from processes import Failure, free_port, wait_until

# Deletes those of the keys that end first, as `volatile-ttl` does: this share of them.
_EVICT = """
local ending = {}
for _, key in ipairs(KEYS) do
  local left = redis.call('PTTL', key)
  if left > 0 then ending[#ending + 1] = {left, key} end
end
table.sort(ending, function(one, other) return one[1] < other[1] end)
for number = 1, math.ceil(#ending * ARGV[1]) do redis.call('UNLINK', ending[number][2]) end
return math.ceil(#ending * ARGV[1])
"""
_EVICTED_AT_ONCE = 500


class Redis:
    def __init__(self, processes, folder, primary=None):
        """`primary`: the Redis whose replica this one is at first."""
        self.processes = processes
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.port = free_port()
        self.program = shutil.which("redis-server")
        if not self.program:
            raise Failure("redis-server is not installed; run make setup")
        self.process = None
        self.start(["--replicaof", "127.0.0.1", str(primary.port), "--repl-diskless-sync-delay", "0"] if primary else [])

    def start(self, options=()):
        self.process = self.processes.start(
            [self.program, "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder), "--save", "",
             # Killed, it still has all that it confirmed: with `everysec` it may answer up to 2 s before it writes.
             "--appendonly", "yes", "--appendfsync", "no", *options], self.folder / "redis.log")
        wait_until("Redis", 60, self._answers, every=0.02)

    def _answers(self):
        if self.process.poll() is not None:
            raise Failure(f"Redis ended; see {self.folder}/redis.log")
        try:
            return self.command("PING") == "PONG"
        except OSError:
            return False

    def command(self, *words):
        """The answer; an error is one that begins with `-`."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as client:
            parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            client.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            return self._read(client.makefile("rb"))

    def _read(self, file):
        line = file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("Redis closed the connection")
        kind, text = line[:1], line[1:-2]
        if kind == b"$":
            return file.read(int(text) + 2)[:-2] if int(text) >= 0 else None
        if kind == b"*":
            return [self._read(file) for _ in range(int(text))]
        return int(text) if kind == b":" else (text if kind == b"+" else line[:-2]).decode()

    def info(self, section):
        lines = self.command("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

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

    def replica(self, folder):
        """A replica that has everything, also on its disk."""

        def is_whole(one):
            disk = one.info("persistence")
            return (one.info("replication")["master_link_status"] == "up"
                    and disk["aof_rewrite_in_progress"] == disk["aof_rewrite_scheduled"] == "0")

        one = Redis(self.processes, folder, primary=self)
        wait_until("the replica", 30, lambda: is_whole(one))
        return one

    def evict(self, prefix, share, keeps):
        """Deletes this share of the keys with an end and this prefix, those that end first; none that `keeps`. How many."""
        cursor, count = b"0", 0
        while True:
            cursor, keys = self.command("SCAN", cursor, "MATCH", f"{prefix}*", "COUNT", _EVICTED_AT_ONCE)
            keys = [key for key in keys if not keeps(key)]
            if keys:
                count += self.command("EVAL", _EVICT, len(keys), *keys, share)
            if cursor == b"0":
                return count

    def pause(self):
        self.processes.signal(self.process, signal.SIGSTOP)

    def resume(self):
        self.processes.signal(self.process, signal.SIGCONT)
