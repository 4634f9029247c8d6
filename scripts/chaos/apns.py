"""apns-simulator as a process, and its control port."""

import collections
import json
import pathlib
import signal
import subprocess
import urllib.request

from processes import Failure


Request = collections.namedtuple("Request", "apns_id token topic environment connection at status reason ending")


class APNs:
    """`beside`: another simulator, whose certificate and credential this one shares."""

    def __init__(self, processes, program, folder, environment="production", options=(), beside=None):
        self.processes = processes
        self.environment = environment
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True)
        identity = ["--folder", str(folder), "--write-credential", str(folder)] if beside is None else [
            "--certificate", str(beside.folder / "server.pem"), "--key", str(beside.folder / "server-key.pem"), "--any-key"]
        self.folder = folder
        self.process = processes.start(
            [program, *identity, "--token-interval", "0", "--quiet", *options], folder / "simulator.log",
            stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"apns-simulator did not start; see {folder}/simulator.log")
        self.ready = json.loads(line)

    @property
    def port(self):
        return self.ready["port"]

    def _ask(self, method, path, body=None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ready['control_port']}{path}", method=method,
            data=body.encode() if body is not None else None)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read()

    def add_fault(self, line):
        """Returns its id."""
        return json.loads(self._ask("POST", "/faults", line))[-1]["id"]

    def remove_fault(self, number):
        self._ask("DELETE", f"/faults/{number}")

    def clear_faults(self):
        self._ask("DELETE", "/faults")

    def act(self, line):
        self._ask("POST", "/actions", line)

    def counters(self):
        return json.loads(self._ask("GET", "/counters"))

    def acceptances(self):
        """How often each apns-id was accepted."""
        lines = self._ask("GET", "/acceptances").decode().split("\n")
        return {line[:36]: int(line[37:]) for line in lines if line}

    def requests(self):
        """Every recorded request, the oldest first; times in Unix seconds."""
        return [Request(
            entry["apns_id"].lower(), entry["target"], entry["topic"], self.environment, entry["connection"],
            entry["received_at"] / 1000, entry["status"], entry["reason"], entry["ending"])
            for entry in json.loads(self._ask("GET", "/ledger"))["requests"]]

    def name_device(self, token, device):
        """Names the device of a push-to-start token."""
        self._ask("POST", "/devices", f"{token} device={device}\n")

    def activities(self):
        """What each device shows."""
        return json.loads(self._ask("GET", "/activities"))["activities"]

    def pause(self):
        self.processes.signal(self.process, signal.SIGSTOP)

    def resume(self):
        self.processes.signal(self.process, signal.SIGCONT)
