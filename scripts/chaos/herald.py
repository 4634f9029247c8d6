"""Workers: `herald run` as processes, their configuration and their admin ports."""

import os
import pathlib
import re
import signal
import subprocess
import urllib.error
import urllib.request

from processes import Failure, free_port

RETRY_DELAYS = (1, 2)
ATTEMPTS_MAXIMUM = 12
CLASSES = ("transactional", "bulk")


def environment():
    """Ours without what would overrule the configuration."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HERALD_")}


def configuration(prefix, rabbitmq, redis, apns_port, apns, prefetch, admin_port):
    ready = apns.ready
    credential = ready["credential"]
    return f"""\
rabbitmq: {{url: "amqp://guest:guest@127.0.0.1:{rabbitmq}/", prefix: {prefix}, prefetch: {prefetch}}}
redis: {{url: "redis://127.0.0.1:{redis}/0", prefix: "{prefix}:"}}
apns:
  production: "https://127.0.0.1:{apns_port}"
  broadcast_production: "https://127.0.0.1:{apns_port}"
  manage_production: "https://127.0.0.1:{ready['manage_port']}"
  ca_file: "{ready['ca_file']}"
  request_timeout_ms: 5000
credentials:
  - name: main
    team_id: {credential['team_id']}
    key_id: {credential['key_id']}
    key_file: "{credential['key_file']}"
    environments: [production]
    apps: [com.example.app]
limits: {{per_device_burst: 0}}
retry: {{delays_s: {list(RETRY_DELAYS)}, attempts_max: {ATTEMPTS_MAXIMUM}, age_max_s: 3600}}
lanes: 1
drain_timeout_s: 20
admin: {{port: {admin_port}}}
"""


def declare(program, file):
    """Every queue and exchange, before the first job."""
    result = subprocess.run(
        [program, "enqueue", os.devnull, "--config", file], env=environment(), capture_output=True, text=True,
        timeout=60, check=False)
    if result.returncode != 0:
        raise Failure(f"herald enqueue: {result.stderr}")


class Worker:
    """One worker. It has a name and doors of its own; its process comes and goes."""

    def __init__(self, processes, program, name, folder, write):
        self.processes = processes
        self.program = program
        self.name = name
        self.folder = pathlib.Path(folder)
        self.admin_port = free_port()
        self.file = self.folder / f"{name}.yaml"
        self.file.write_text(write(self.admin_port))
        self.log = self.folder / f"{name}.log"
        self.process = None
        self.starts = 0

    def start(self):
        self.starts += 1
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"== start {self.starts}\n")
        self.process = self.processes.start(
            [self.program, "run", "--config", str(self.file)], self.log, environment())

    def kill(self):
        self.processes.kill(self.process)

    def pause(self):
        self.processes.signal(self.process, signal.SIGSTOP)

    def resume(self):
        self.processes.signal(self.process, signal.SIGCONT)

    def stop(self, seconds=40):
        """SIGTERM. Failure where it does not end with exit 0."""
        status = self.processes.stop(self.process, seconds)
        if status != 0:
            raise Failure(f"{self.name}: exit {status} after SIGTERM (None: killed after {seconds} s); see {self.log}")

    def has_ended(self):
        return self.process.poll() is not None

    def get(self, path):
        """Status and body of its admin port; (0, "") where it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""

    def is_ready(self):
        return self.get("/readyz")[0] == 200

    def metric(self, name):
        """The sum over its labels; 0 where it does not answer."""
        lines = re.findall(rf"^{name}(?:{{[^}}]*}})? ([-0-9.e+]+)$", self.get("/metrics")[1], re.MULTILINE)
        return sum(float(value) for value in lines)

    def resident_mebibytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))
