"""Workers: `herald run` as processes, their configuration and their admin ports."""

import json
import os
import pathlib
import re
import signal
import subprocess
import urllib.error
import urllib.request

from processes import Failure, free_port, wait_until

# Far enough apart that the times of attempts show which of them a retry waited for.
RETRY_DELAYS = (1, 3)
ATTEMPTS_MAXIMUM = 12
AGE_MAXIMUM_SECONDS = 3600
REQUEST_TIMEOUT_SECONDS = 8
CLASSES = ("transactional", "bulk")
APP = "com.example.app"
# Whose devices have a rate, who sends to bad tokens, and who is beside it with the same credential, which nobody else uses.
LIMITED_APP, CAMPAIGN_APP, BESIDE_APP = "com.example.hot", "com.example.campaign", "com.example.beside"
# Whose devices are registered: two tenants that name devices, users and activities alike. Above this number of those with iOS 18 an
# activity takes a channel.
AUDIENCE_APPS, CHANNEL_ABOVE = ("com.example.audience", "com.example.rival"), 6
# Of messages that no honest producer publishes; it shares the credential of the first app.
FORGED_APP = "com.example.forged"

# The limits of each reload, the first from the start. The limited app's rate is at another position in each, or missing.
_OTHERS = [f"com.example.other-{i}/alert=5:1" for i in range(5)]
_LIMITS = [
    {"overrides": [*_OTHERS, f"{LIMITED_APP}/alert=3:1"], "on_limit": "delay", "per_device_burst": 0},
    {"overrides": [f"{LIMITED_APP}/alert=2:0.5"], "on_limit": "drop", "per_device_burst": 0},
    {"overrides": [], "on_limit": "delay", "per_device_burst": 200},
    {"overrides": [f"{LIMITED_APP}/*=4:2", *reversed(_OTHERS), *_OTHERS], "on_limit": "delay", "per_device_burst": 100},
    {"overrides": [*_OTHERS[3:], f"{LIMITED_APP}/background=1:1", f"{LIMITED_APP}/alert=0"], "on_limit": "drop",
     "per_device_burst": 0},
]


def environment():
    """Our environment without the variables that would override the configuration."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HERALD_")}


def configuration(prefix, ports, apns, sandbox, prefetch, admin_port=0, limits=0):
    """`ports`: of broker, redis and apns, as this worker sees them. `limits`: any number, which set of them."""
    ready = apns.ready
    credential = ready["credential"]
    return f"""\
rabbitmq: {{url: "amqp://guest:guest@127.0.0.1:{ports['broker']}/", prefix: {prefix}, prefetch: {prefetch}}}
redis: {{url: "redis://127.0.0.1:{ports['redis']}/0", prefix: "{prefix}:"}}
apns:
  production: "https://127.0.0.1:{ports['apns']}"
  broadcast_production: "https://127.0.0.1:{ports['apns']}"
  manage_production: "https://127.0.0.1:{ready['manage_port']}"
  sandbox: "https://127.0.0.1:{sandbox.port}"
  broadcast_sandbox: "https://127.0.0.1:{sandbox.port}"
  manage_sandbox: "https://127.0.0.1:{sandbox.ready['manage_port']}"
  ca_file: "{ready['ca_file']}"
  request_timeout_ms: {REQUEST_TIMEOUT_SECONDS * 1000}
credentials:
  - name: main
    team_id: {credential['team_id']}
    key_id: {credential['key_id']}
    key_file: "{credential['key_file']}"
    apps: [{APP}, {LIMITED_APP}, {FORGED_APP}]
  - name: second
    team_id: {credential['team_id']}
    key_id: {credential['key_id']}
    key_file: "{credential['key_file']}"
    apps: [{CAMPAIGN_APP}, {BESIDE_APP}]
  - name: third
    team_id: {credential['team_id']}
    key_id: {credential['key_id']}
    key_file: "{credential['key_file']}"
    apps: [{AUDIENCE_APPS[0]}]
  - name: fourth
    team_id: {credential['team_id']}
    key_id: {credential['key_id']}
    key_file: "{credential['key_file']}"
    apps: [{AUDIENCE_APPS[1]}]
activities: {{id_attribute: activityId, channel_above: {CHANNEL_ABOVE}, default_stale_after_s: 3600}}
limits: {json.dumps(_LIMITS[limits % len(_LIMITS)])}
retry: {{delays_s: {list(RETRY_DELAYS)}, attempts_max: {ATTEMPTS_MAXIMUM}, age_max_s: {AGE_MAXIMUM_SECONDS}}}
lanes: 1
drain_timeout_s: 20
log: {{level: {"info" if limits % 2 == 0 else "notice"}}}
admin: {{port: {admin_port}}}
"""


def declare(program, file):
    """Every queue and exchange, before the first job."""
    result = subprocess.run(
        [program, "enqueue", os.devnull, "--config", file], env=environment(), capture_output=True, text=True,
        timeout=60, check=False)
    if result.returncode != 0:
        raise Failure(f"herald enqueue: {result.stderr}")


def put_segment(program, file, app, code, filter_text):
    """Stores a segment; whether Redis took it."""
    result = subprocess.run(
        [program, "segments", "put", code, "--filter", filter_text, "--app", app, "--environment", "production",
         "--config", file], env=environment(), capture_output=True, text=True, timeout=60, check=False)
    return result.returncode == 0


def devices(program, file, app):
    """Every device that the registry knows: the registration that makes it."""
    result = subprocess.run(
        [program, "devices", "export", "--app", app, "--environment", "production", "--config", file],
        env=environment(), capture_output=True, text=True, timeout=60, check=False)
    if result.returncode != 0:
        raise Failure(f"herald devices export: {result.stderr}")
    return [json.loads(line) for line in result.stdout.split("\n") if line]


def wrong_clock(seconds, folder):
    """The variables that set a process's wall clock off by so much. `folder` keeps the library that does it."""
    if not seconds:
        return {}
    library = folder / "clock.so"
    if not library.exists():
        source = pathlib.Path(__file__).resolve().parent / "clock.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True, timeout=60)
    return {"LD_PRELOAD": str(library), "SHIFTED_CLOCK_MS": str(seconds * 1000)}


class Worker:
    """One worker, with its own name and proxies; its process may be stopped and started."""

    def __init__(self, processes, program, name, folder, write):
        self.processes = processes
        self.program = program
        self.name = name
        self.folder = pathlib.Path(folder)
        self.admin_port = free_port()
        self.file = self.folder / f"{name}.yaml"
        self._write = write
        self.file.write_text(write(self.admin_port, 0))
        self.log = self.folder / f"{name}.log"
        self.process = None
        self.starts = 0
        # Each unexpected end, for people.
        self.crashes = []

    def start(self, clock_seconds=0):
        """`clock_seconds`: how far its clock is ahead; negative: behind."""
        self.starts += 1
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"== start {self.starts}\n")
        self.process = self.processes.start(
            [self.program, "run", "--config", str(self.file)], self.log,
            environment() | wrong_clock(clock_seconds, self.folder))

    def kill(self):
        self.note_crash()
        self.processes.kill(self.process)

    def pause(self):
        self.processes.signal(self.process, signal.SIGSTOP)

    def resume(self):
        self.processes.signal(self.process, signal.SIGCONT)

    def reload(self, limits):
        """SIGHUP, with changed limits in its file."""
        self.file.write_text(self._write(self.admin_port, limits))
        self._wait_until_up()
        self.processes.signal(self.process, signal.SIGHUP)

    def stop(self, seconds=40):
        """SIGTERM. Failure if it does not exit 0."""
        if self.note_crash():
            return
        self._wait_until_up()
        status = self.processes.stop(self.process, seconds)
        if status != 0:
            raise Failure(f"{self.name}: exit {status} after SIGTERM (None: killed after {seconds} s); see {self.log}")

    def _wait_until_up(self):
        """A process that is just being loaded would die of any signal."""
        wait_until(f"{self.name} is up", 30, lambda: self.process.poll() is not None or self.get("/livez")[0] == 200)

    def note_crash(self):
        """Whether it ended by itself; before it is ended, or started again."""
        status = self.process.poll()
        if status is None:
            return False
        tail = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:]
        ending = f"signal {-status}" if status < 0 else f"exit {status}"
        self.crashes.append("\n         ".join([f"{self.name} ended by itself: {ending}; {self.log} ends with", *tail]))
        return True

    def get(self, path):
        """Status and body of its admin port; (0, "") if it does not answer."""
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
        """The sum over its labels; 0 if it does not answer."""
        lines = re.findall(rf"^{name}(?:{{[^}}]*}})? ([-0-9.e+]+)$", self.get("/metrics")[1], re.MULTILINE)
        return sum(float(value) for value in lines)

    def resident_mebibytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))
