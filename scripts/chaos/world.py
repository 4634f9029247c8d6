"""Everything in a run: private servers, proxies, workers, producer, reader; its timeline, and the evidence that it leaves."""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import audiences
import audit
import audit_audiences
import audit_forgeries
import audit_parts
import forgeries
import herald
from apns import APNs
from jobs import JobMaker
from processes import Failure, Processes, wait_until
from producer import Producer
from proxy import ProxyProcess
from rabbitmq import RabbitMQ
from reader import Reader
from redis_server import Redis

PREFIX = "chaos"
SERVERS = ("broker", "redis", "apns")
# Every check must find nothing in flight for this long: longer than the shortest retry.
IDLE_SECONDS = 2
# Longer than a message takes from one queue to another, or from a queue to a worker.
QUIET_SECONDS = 20
# How long messages may stay in a queue with nothing in flight: twice as long as RabbitMQ waits for a confirm that it lost.
STANDING_SECONDS = 20
ROOT = pathlib.Path(__file__).resolve().parents[2]


def build(configuration):
    """Builds missing or outdated programs."""
    for product in ("herald", "apns-simulator"):
        command = [str(ROOT / "scripts/build"), "-c", configuration, "--product", product]
        if subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False).returncode != 0:
            raise Failure(f"{' '.join(command)} failed")


def programs(configuration):
    """The folder of the built programs, `release` or `debug`. SwiftPM's own variable names another build folder than the tree's."""
    folder = pathlib.Path(os.environ.get("SWIFTPM_BUILD_DIR", ROOT / ".build")) / configuration
    for name in ("herald", "apns-simulator"):
        if not (folder / name).exists():
            raise Failure(f"{folder}/{name} is not there; build it with: swift build -c {configuration} --product {name}")
    return folder


class World:
    def __init__(self, configuration, workers=3, prefetch=2000, simulator_options=(), proxies=True):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="herald-chaos."))
        self.processes = Processes()
        self.windows = []
        self.errors = []
        # Notes about a run that did not fail.
        self.notes = []
        self.prefetch = prefetch
        self._makers = 0
        self._reloads = 0
        self.producer = None
        self.audiences = None
        self.forger = None
        self.began = time.time()
        # Only one fault at a time may pause, kill or stop a worker or a server.
        self.locks = {name: threading.Lock() for name in SERVERS + tuple(f"worker-{i}" for i in range(workers))}
        self._timeline = open(self.folder / "timeline.jsonl", "a", encoding="utf-8")
        self._timeline_lock = threading.Lock()
        try:
            self._start(programs(configuration), workers, simulator_options, proxies)
        except BaseException:
            self.close(keep=False)
            raise

    def _start(self, built, workers, simulator_options, proxies):
        program = str(built / "herald")
        self.rabbitmq = RabbitMQ(self.processes, self.folder / "rabbitmq")
        self.redis = Redis(self.processes, self.folder / "redis")
        simulator = str(built / "apns-simulator")
        registrations = f"amqp://guest:guest@127.0.0.1:{self.rabbitmq.port}/"
        self.apns = APNs(
            self.processes, simulator, self.folder / "apns",
            options=["--registrations", registrations, "--registrations-queue", f"{PREFIX}.registrations", *simulator_options])
        # Accepts every token: production's answers about a token must not apply to the sandbox.
        self.sandbox = APNs(
            self.processes, simulator, self.folder / "sandbox", "sandbox",
            ["--sandbox", "--no-prefixes", *simulator_options], self.apns)
        ports = {"broker": self.rabbitmq.port, "redis": self.redis.port, "apns": self.apns.port}
        self.proxy = None
        if proxies:
            targets = {f"{server}-{i}": ports[server] for server in SERVERS for i in range(workers)}
            self.proxy = ProxyProcess(self.processes, targets, self.folder / "proxy.log")

        def write(number):
            seen = {server: self.proxy.ports[f"{server}-{number}"] for server in SERVERS} if proxies else ports
            return lambda admin_port, limits: herald.configuration(
                PREFIX, seen, self.apns, self.sandbox, self.prefetch, admin_port, limits)

        self.workers = [
            herald.Worker(self.processes, program, f"worker-{i}", self.folder, write(i)) for i in range(workers)]
        plain = self.folder / "herald.yaml"

        def write_plain():
            own = ports | {"redis": self.redis.port}
            plain.write_text(herald.configuration(PREFIX, own, self.apns, self.sandbox, self.prefetch))

        self._write_plain = write_plain
        self._write_plain()
        herald.declare(program, str(plain))
        self._put_segment = functools.partial(herald.put_segment, program, str(plain))
        self._devices = functools.partial(herald.devices, program, str(plain))
        self.reader = Reader(self.rabbitmq, PREFIX, self.folder / "outcomes.jsonl")
        self.reader.start()

    # What happens

    def note(self, text, **details):
        """A line of the timeline."""
        with self._timeline_lock:
            record = {"at": round(time.time() - self.began, 3), "what": text} | details
            self._timeline.write(json.dumps(record) + "\n")
            self._timeline.flush()

    def set_proxies(self, server, mode, worker=None):
        """Sets the mode of all proxies to a server, or of one worker's."""
        for number in range(len(self.workers)) if worker is None else [worker]:
            self.proxy.set(f"{server}-{number}", mode)

    def replace_redis(self, replica):
        """Leads all workers to this one, which takes the old one's place."""
        self.redis = replica
        self._write_plain()
        self.set_proxies("redis", f"to:{replica.port}")

    def pause_jobs(self):
        """Until `resume_jobs`, nobody publishes any."""
        for one in (self.producer, self.audiences, self.forger):
            if one:
                one.paused.set()

    def resume_jobs(self):
        for one in (self.producer, self.audiences, self.forger):
            if one:
                one.paused.clear()

    def start_workers(self):
        for worker in self.workers:
            worker.start()
        for worker in self.workers:
            wait_until(f"{worker.name} is ready", 60, worker.is_ready)

    def produce(self, maker, rate=None, count=None):
        self.producer = Producer(self.rabbitmq, PREFIX, maker, rate, count)
        self.producer.start()
        return self.producer

    def produce_audiences(self, seed):
        """Devices register, and jobs for them are published beside the producer's."""
        self.audiences = audiences.Audiences(self.rabbitmq, PREFIX, seed, self._put_segment)
        for number in range(audiences.DEVICES):
            for app in herald.AUDIENCE_APPS:
                self.apns.name_device(audiences.start_token(app, number), audiences.device(number))
        self.audiences.register()
        self.audiences.put_all_segments()
        wait_until("the registrations", 60, lambda: sum(
            worker.metric("herald_registrations_total") for worker in self.workers)
            >= audiences.DEVICES * len(herald.AUDIENCE_APPS))
        self.audiences.start()

    def produce_forgeries(self, seed):
        """Forged messages are published beside the producer's."""
        self.forger = forgeries.Forger(self.rabbitmq, PREFIX, seed)
        self.forger.start()

    def inject(self, count, kinds, job_class=None):
        """Also publishes these jobs, as soon as the producer can."""
        self._makers += 1
        maker = JobMaker(f"{self.producer.maker.run} {self._makers}", kinds, job_class, first=10_000_000 * self._makers)
        jobs = [maker.make() for _ in range(count)]
        self.producer.inject(jobs)
        return jobs

    def reload_limits(self):
        """SIGHUP to all workers, with changed limits."""
        self._reloads += 1
        for worker in self.workers:
            worker.reload(self._reloads)

    # Progress

    def work_queues(self):
        delays = [f"{PREFIX}.retry.{name}.{delay}" for name in herald.CLASSES for delay in herald.RETRY_DELAYS]
        others = [f"{PREFIX}.{name}" for name in ("jobs.isolated", "registrations", "channels")]
        audiences = ("expansions", "expansions.bulk")
        expansions = [f"{PREFIX}.{name}" for name in audiences]
        expansions += [f"{PREFIX}.retry.{name}.{delay}" for name in audiences for delay in (1, 5, 30)]
        registrations = [f"{PREFIX}.retry.registrations.{delay}" for delay in (1, 5, 30)]
        return [f"{PREFIX}.jobs.{name}" for name in herald.CLASSES] + others + delays + expansions + registrations

    def waiting(self):
        """Messages in Herald's work queues that no consumer has."""
        return sum(length or 0 for length in self.rabbitmq.lengths(self.work_queues()).values())

    def in_flight(self):
        names = ("herald_jobs_in_flight", "herald_expansions_in_flight")
        return sum(worker.metric(name) for worker in self.workers for name in names)

    def is_idle(self):
        """Every job has at least one outcome, and nothing is in flight. A batch may still miss others."""
        if not self.producer.is_quiet() or len(self.reader.jobs) < len(self.producer.jobs):
            return False
        if self.audiences:
            # Those that Redis forgot may have no end.
            since = max((window.end for window in self.windows if window.kind.startswith(audit.FORGETTING)), default=0)
            if any(job.published_at > since and job.id not in self.reader.audience_jobs for job in list(self.audiences.jobs.values())):
                return False
        return self.waiting() == 0 and self.in_flight() == 0

    def settle(self, seconds):
        """Stops new jobs; returns once every job is confirmed and has its outcomes."""
        self.resume_jobs()
        self.producer.finish()
        for one in (self.audiences, self.forger):
            if one:
                one.finish()
        wait_until("the producer's last confirms", 60, self.producer.is_all_confirmed)
        quiet_since, quiet_count = time.monotonic(), 0
        moved_at, state = time.monotonic(), None
        deadline = time.monotonic() + seconds
        idle_since = None
        while True:
            # Queues and workers are checked one after the other: a copy that moves between them may be seen in neither, once.
            idle_since = (idle_since or time.monotonic()) if self.is_idle() else None
            if idle_since and time.monotonic() - idle_since > IDLE_SECONDS:
                return
            now_at = (len(self.reader.outcomes) + len(self.reader.audiences), self.waiting(), self.in_flight())
            if now_at != state or not now_at[1] or now_at[2]:
                moved_at, state = time.monotonic(), now_at
            if time.monotonic() - moved_at > STANDING_SECONDS and not self.notes:
                self._restart_standing_broker()
            # A job that is nowhere will not come: the audit names it.
            if now_at[0] != quiet_count or self.waiting() or self.in_flight():
                quiet_since, quiet_count = time.monotonic(), now_at[0]
            if time.monotonic() - quiet_since > QUIET_SECONDS:
                return
            if time.monotonic() > deadline:
                self.errors.append(f"every job's end: not within {seconds} s")
                return
            time.sleep(0.5)

    def _restart_standing_broker(self):
        """What an operator would do about a retry queue that keeps what has expired (seen once, with RabbitMQ 3.10.8, after the queue
        was deleted and declared again). Its jobs are in a queue, which is all that is promised of them. Those in another queue
        are Herald's to take."""
        left = {queue: length for queue, length in self.rabbitmq.lengths(self.work_queues()).items() if length}
        if not all(".retry." in queue for queue in left):
            return
        self.notes.append(f"RabbitMQ handed on nothing for {STANDING_SECONDS} s and was restarted; it had {left}")
        self.rabbitmq.stop()
        self.rabbitmq.start()

    # The end

    def stop_workers(self):
        for worker in self.workers:
            if worker.process:
                try:
                    worker.stop()
                except Failure as failure:
                    self.errors.append(str(failure))

    def audit(self):
        """After `settle`: stops workers and reader, collects the records and compares them."""
        self.stop_workers()
        self.reader.finish()
        acceptances = {one.environment: one.acceptances() for one in (self.apns, self.sandbox)}
        shown = self.apns.activities()
        # A million of them are too many to read.
        is_small = self.apns.counters()["requests"] < 1_000_000
        requests = self.apns.requests() + self.sandbox.requests() if is_small else None
        with open(self.folder / "requests.jsonl", "w", encoding="utf-8") as file:
            for request in requests or ():
                file.write(json.dumps(request) + "\n")
        with open(self.folder / "jobs.jsonl", "w", encoding="utf-8") as file:
            for job in self.producer.jobs.values():
                file.write(json.dumps(
                    [job.id, job.kind, job.job_class, job.publishes, job.published_at, job.confirmed_at]) + "\n")
        if self.audiences:
            with open(self.folder / "parts.jsonl", "w", encoding="utf-8") as file:
                for part in self.audiences.registered:
                    file.write(json.dumps([part.published_at, part.document]) + "\n")
        mine = [one for one in requests or () if one.topic.startswith(herald.AUDIENCE_APPS)]
        # Neither the producer's nor asked for by anyone.
        foreign = {one.apns_id for one in mine} | {
            one.apns_id for one in requests or () if one.topic.startswith(herald.FORGED_APP)}
        production = acceptances["production"]
        acceptances["production"] = {apns_id: count for apns_id, count in production.items() if apns_id not in foreign}
        letters, forged, given_up = self._dead_letters()
        verdict = audit.audit(self.producer.jobs, self.reader.outcomes, acceptances, requests, letters, self.windows)
        if self.audiences:
            audit_audiences.audit(
                verdict, self.audiences.jobs, self.reader.audiences, production,
                [one for one in shown if one["app"] in herald.AUDIENCE_APPS], self.windows, mine)
            audit_parts.audit(
                verdict, self.audiences.registered, self.audiences.registered_at,
                {app: self._devices(app) for app in herald.AUDIENCE_APPS}, self.windows, given_up)
        if self.forger:
            audit_forgeries.audit(verdict, self.forger.messages, self.reader.forged | forged, self.reader.garbled)
        for worker in self.workers:
            for crash in worker.crashes:
                verdict.fail("a worker ended by itself", crash)
        left = {queue: length for queue, length in self.rabbitmq.lengths(self.work_queues()).items() if length}
        for queue, length in left.items():
            verdict.fail("left in a queue", f"{queue}: {length}")
        for error in self.errors:
            verdict.fail("the run", error)
        verdict.counts["published_twice"] = sum(job.publishes > 1 for job in self.producer.jobs.values())
        verdict.counts["read_again"] = self.reader.delivered_again
        (self.folder / "verdict.json").write_text(
            json.dumps({"counts": verdict.counts, "findings": verdict.findings}, indent=1))
        return verdict

    def _dead_letters(self):
        """Those of the producer's jobs, the ids of forged ones, and the bodies of registrations that RabbitMQ handed out too often."""
        letters, forged, given_up = [], set(), set()
        file = open(self.folder / "dead.txt", "w", encoding="utf-8")
        connection = self.rabbitmq.connect()
        channel = connection.channel()
        while True:
            method, properties, body = channel.basic_get(f"{PREFIX}.dead")
            if method is None:
                break
            # A broken body has no reliable id; Herald uses the message's id.
            found = re.search(rb'"id":"([^"]*)"', body)
            job_id = properties.message_id or (found.group(1).decode(errors="replace") if found else "")
            headers = properties.headers or {}
            file.write(f"{job_id!a} {headers!a} {body[:2000]!a}\n")
            if forgeries.is_forged(job_id, body):
                forged.add(job_id)
                continue
            if any(f'"{app}"'.encode() in body for app in herald.AUDIENCE_APPS):
                # Of activities that ended, and registrations that many deaths of workers took along.
                if headers.get("x-herald-reason") == "redelivered":
                    given_up.add(body)
                continue
            # The latest first; a copy that waited for a retry has Herald's reason too, of its last attempt.
            death = next((death["reason"] for death in headers.get("x-death") or []), None)
            letters.append(audit.DeadLetter(job_id, None if death else headers.get("x-herald-reason"), death))
        connection.close()
        file.close()
        return letters, forged, given_up

    def close(self, keep):
        """Ends every process; keeps the logs and records, or nothing."""
        self.processes.end_all()
        self._timeline.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        for name in ("rabbitmq/data", "rabbitmq/home", "rabbitmq/plugins"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for folder in self.folder.glob("redis*/appendonlydir"):
            shutil.rmtree(folder, ignore_errors=True)


def commit():
    """The tested commit."""
    result = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"
