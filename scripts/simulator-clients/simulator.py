"""Starts apns-simulator for a check and stops it again; everything stays on loopback."""

import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

import jwt

DEVICE = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
APP = "com.example.app"


class Simulator:
    def __init__(self, *arguments):
        binary = os.environ.get("APNS_SIMULATOR")
        if not binary:
            sys.exit("APNS_SIMULATOR must name the apns-simulator binary")
        self.folder = tempfile.TemporaryDirectory(prefix="apns-simulator-check-")
        self.process = subprocess.Popen(
            [binary, "--folder", self.folder.name, "--quiet", *arguments], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the simulator did not start (exit {self.process.wait()})")
        self.ready = json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=10)
        self.folder.cleanup()
        check("the simulator stops with exit 0", status == 0)

    @property
    def port(self):
        return self.ready["port"]

    @property
    def authority(self):
        return self.ready["ca_file"]

    def control(self, method, path, body=None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ready['control_port']}{path}", method=method,
            data=body.encode() if body is not None else None)
        with urllib.request.urlopen(request, timeout=5) as answer:
            text = answer.read().decode()
        return json.loads(text) if answer.headers["Content-Type"].startswith("application/json") else text

    def trust(self):
        return ssl.create_default_context(cafile=self.authority)

    def key(self):
        """The signing key, PEM."""
        with open(self.ready["credential"]["key_file"]) as file:
            return file.read()

    def token(self, age_seconds=0):
        credential = self.ready["credential"]
        return jwt.encode(
            {"iss": credential["team_id"], "iat": int(time.time()) - age_seconds}, self.key(), algorithm="ES256",
            headers={"kid": credential["key_id"]})


failures = 0
counts = {}


def check(name, holds, detail="", kind="other checks"):
    """Counts and prints a check's result; `finish` ends the script accordingly."""
    global failures
    counts[kind] = counts.get(kind, 0) + 1
    if holds:
        if os.environ.get("VERBOSE"):
            print(f"ok    {name}")
    else:
        failures += 1
        print(f"FAIL  {name}: {detail}")


def rule_case(name, holds, detail=""):
    """A request, and the status and reason of its expected answer."""
    check(name, holds, detail, kind="rule cases")


def fault_case(name, holds, detail=""):
    """A fault that was set, and what the client saw of it."""
    check(name, holds, detail, kind="fault cases")


def finish():
    print("      " + ", ".join(f"{count} {kind}" for kind, count in counts.items()) + f", {failures} failed")
    sys.exit(1 if failures else 0)
