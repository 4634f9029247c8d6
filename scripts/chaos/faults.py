"""Every fault by name, with the resources that it occupies, and the plan of a run from its seed.

A fault takes its locks, records its time as a window, does harm for a while, and undoes it. Its name begins with what suffers.
"""

import contextlib
import random
import time

import pika

from audit import Window
from audit_requests import SETTLING_SECONDS
from herald import REQUEST_TIMEOUT_SECONDS, RETRY_DELAYS
from jobs import CAMPAIGN_KINDS
from processes import Failure, wait_until
from world import PREFIX

_DECLARED_SECONDS = 2

# Just before a request times out.
SLOW_MILLISECONDS = REQUEST_TIMEOUT_SECONDS * 1000 - 1000

# In keys that Redis must keep: docs/reference/registry.md, docs/redis.md.
_KEPT = (b"{devices:", b"{job:", b"{channels:")

_TABLE = {}


def fault(*resources):
    """`worker` stands for the one that the plan names, `workers` for each, `all` for everything."""

    def add(function):
        _TABLE[function.__name__.replace("_", "-")] = (resources, function)
        return function

    return add


class Fault:
    """A fault of a plan: when it begins, what it hits, how long it lasts; `choice` is a random number for its own use."""

    def __init__(self, at, name, worker, seconds, choice):
        self.at = at
        self.name = name
        self.worker = worker
        self.seconds = seconds
        self.choice = choice

    def __str__(self):
        return f"{self.name} (worker {self.worker}, {self.seconds:.1f} s)"

    def run(self, world):
        resources, function = _TABLE[self.name]
        names = {f"worker-{self.worker}" if name == "worker" else name for name in resources} & set(world.locks)
        if "all" in resources or "workers" in resources:
            names |= {name for name in world.locks if "all" in resources or name.startswith("worker-")}
        with contextlib.ExitStack() as stack:
            for name in sorted(names):
                stack.enter_context(world.locks[name])
            begin = time.time()
            world.note("begin", fault=str(self))
            try:
                function(world, self)
            except Exception as error:  # pylint: disable=broad-except
                world.errors.append(f"{self}: {error!r}")
            world.windows.append(Window(self.name, begin, time.time()))
            world.note("end", fault=str(self))


def plan(seed, seconds, gap, longest, workers, names=None):
    """Every fault once in an order from the seed, then in another order, and so on; `gap` seconds apart on average."""
    chance = random.Random(f"faults {seed}")
    names = list(names or _TABLE)
    unknown = set(names) - set(_TABLE)
    if unknown:
        raise Failure(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(_TABLE)}")
    faults, at = [], 0.0
    while True:
        chance.shuffle(names)
        for name in names:
            at += chance.uniform(0.3, 1.7) * gap
            if at > seconds:
                return faults
            faults.append(Fault(at, name, chance.randrange(workers), chance.uniform(1, longest), chance.random()))


# Workers


@fault("worker")
def worker_kill(world, this):
    worker = world.workers[this.worker]
    worker.kill()
    time.sleep(2 * this.choice)
    worker.start()


@fault("worker")
def worker_stop(world, this):
    worker = world.workers[this.worker]
    worker.stop()
    worker.start()


@fault("worker")
def worker_pause(world, this):
    worker = world.workers[this.worker]
    worker.pause()
    time.sleep(this.seconds)
    worker.resume()


@fault("worker")
def worker_clock(world, this):
    """Its machine's clock is up to two hours ahead or behind."""
    worker = world.workers[this.worker]
    worker.stop()
    worker.start(clock_seconds=int(14_400 * (this.choice - 0.5)))
    time.sleep(this.seconds)
    worker.stop()
    worker.start()


@fault("worker")
def worker_partition(world, this):
    """One worker loses the broker, which redelivers its jobs to others while it still has them."""
    _hole(world, "broker", this, this.worker)


# RabbitMQ


@fault("broker")
def broker_restart(world, _):
    world.rabbitmq.stop()
    world.rabbitmq.start()


@fault("broker")
def broker_kill(world, _):
    """RabbitMQ 3.10.8 comes back without what was confirmed in a queue that was declared less than a second before: it waits until all
    queues are older."""
    queues = world.work_queues() + [f"{PREFIX}.results.log"]
    try:
        wait_until("all queues", 20, lambda: None not in world.rabbitmq.lengths(queues).values(), every=0.2)
    except Failure:
        world.note("not killed: a queue is not declared again yet")
        return
    time.sleep(_DECLARED_SECONDS)
    world.rabbitmq.kill()
    world.rabbitmq.start()


@fault("broker")
def broker_pause(world, this):
    world.rabbitmq.pause()
    time.sleep(this.seconds)
    world.rabbitmq.resume()


@fault("broker")
def broker_hole(world, this):
    _hole(world, "broker", this)


@fault("broker")
def broker_cut(world, this):
    _refuse(world, "broker", this)


@fault("broker")
def alarm_memory(world, this):
    world.rabbitmq.control("set_vm_memory_high_watermark", "0.00001")
    time.sleep(this.seconds)
    world.rabbitmq.control("set_vm_memory_high_watermark", "0.4")


@fault("broker")
def alarm_disk(world, this):
    world.rabbitmq.control("set_disk_free_limit", "1000GB")
    time.sleep(this.seconds)
    world.rabbitmq.control("set_disk_free_limit", "50MB")


# Queues. Messages of a deleted queue are lost, so only queues without jobs are deleted.


@fault("broker")
def queue_delete_log(world, _):
    """The auditor's queue has a copy of every outcome."""
    _delete(world, f"{PREFIX}.results.log")


@fault("all")
def queue_delete_retry(world, this):
    """Pauses all workers until it is empty, so that no copy is in flight to it."""
    name = "bulk" if this.choice < 0.5 else "transactional"
    queue = f"{PREFIX}.retry.{name}.{RETRY_DELAYS[int(this.choice * 10) % len(RETRY_DELAYS)]}"
    for worker in world.workers:
        worker.pause()
    try:
        quiet_since = None
        for _ in range(100):
            is_empty = not world.rabbitmq.lengths([queue])[queue]
            quiet_since = (quiet_since or time.monotonic()) if is_empty else None
            if quiet_since and time.monotonic() - quiet_since > 0.5:
                _delete(world, queue)
                break
            time.sleep(0.1)
        else:
            world.note("not deleted: it was never empty", queue=queue)
    finally:
        for worker in world.workers:
            worker.resume()


@fault("all")
def queue_delete_jobs(world, this):
    """All producers pause and every job ends; then the queue is deleted, and must be declared again by a worker."""
    queue = f"{PREFIX}.jobs.{'bulk' if this.choice < 0.5 else 'transactional'}"
    world.pause_jobs()
    try:
        try:
            wait_until("idle", 60, world.is_idle, every=0.2)
        except Failure:
            world.note("not deleted: jobs are on their way", queue=queue)
            return
        _delete(world, queue)
        wait_until(f"{queue} is declared again", 30, lambda: world.rabbitmq.lengths([queue])[queue] is not None)
    finally:
        world.resume_jobs()


# Redis


@fault("redis")
def redis_flush(world, _):
    world.redis.command("FLUSHALL")


@fault("redis")
def redis_rewind(world, this):
    """What Redis confirmed in the last seconds is gone: as after a failover to a replica that lagged."""
    mark = world.redis.mark()
    time.sleep(min(this.seconds, 10))
    world.redis.rewind(mark)


@fault("redis")
def redis_promote(world, this):
    """A failover: a replica without the last seconds takes Redis' place. Half of the time the old one is its replica first, read-only."""
    replica = world.redis.replica(world.folder / f"redis-{len(list(world.folder.glob('redis*')))}")
    replica.command("REPLICAOF", "NO", "ONE")
    time.sleep(min(this.seconds, 10))
    old = world.redis
    if this.choice < 0.5:
        old.command("REPLICAOF", "127.0.0.1", replica.port)
        time.sleep(2 * this.choice)
    world.replace_redis(replica)
    old.kill()


@fault("redis")
def redis_evict(world, this):
    """Memory is scarce: keys that end soon go, one after the other. A Redis with devices and channels must not evict theirs."""
    count, end = 0, time.monotonic() + min(this.seconds, 10)
    while time.monotonic() < end:
        count += world.redis.evict(f"{PREFIX}:", this.choice, lambda key: any(word in key for word in _KEPT))
        time.sleep(0.5)
    world.note("evicted", keys=count)


@fault("redis")
def redis_script_flush(world, _):
    world.redis.command("SCRIPT", "FLUSH")


@fault("redis")
def redis_kill(world, this):
    world.redis.kill()
    time.sleep(this.seconds / 2)
    world.redis.start()


@fault("redis")
def redis_pause(world, this):
    world.redis.pause()
    time.sleep(this.seconds)
    world.redis.resume()


@fault("redis")
def redis_hole(world, this):
    _hole(world, "redis", this)


@fault("redis")
def redis_cut(world, this):
    _refuse(world, "redis", this)


# APNs


@fault("apns")
def apns_pause(world, this):
    world.apns.pause()
    time.sleep(this.seconds)
    world.apns.resume()


@fault("apns")
def apns_hole(world, this):
    _hole(world, "apns", this)


@fault("apns")
def apns_cut(world, this):
    _refuse(world, "apns", this)


@fault("apns")
def apns_goaway(world, this):
    """A storm of GOAWAY: on each connection every few requests, and on all of them five times a second."""
    with _apns_fault(world, "after=20,share=0.05,goaway=previous,reason=Shutdown"):
        end = time.monotonic() + this.seconds
        while time.monotonic() < end:
            world.apns.act("goaway=all,reason=Shutdown")
            time.sleep(0.2)


@fault("apns")
def apns_unavailable(world, this):
    with _apns_fault(world, f"share={0.3 + 0.7 * this.choice:.2f},status=503,reason=ServiceUnavailable"):
        time.sleep(min(this.seconds, 8))


@fault("apns")
def apns_breaks(world, this):
    """Connections break, some of them after the request was accepted; never one that APNs would have refused."""
    with _apns_fault(world, "share=0.01,drop"), _apns_fault(world, "prefix=00fc,share=0.01,processed,drop"):
        time.sleep(this.seconds)


@fault("apns")
def apns_silent(world, this):
    """Some requests are accepted and never answered."""
    with _apns_fault(world, "prefix=00fc,share=0.02,processed,silence"):
        time.sleep(min(this.seconds, 8))


@fault("apns")
def apns_slow(world, this):
    with _apns_fault(world, "latency=exp:200"):
        time.sleep(this.seconds)


@fault("broker", "apns")
def broker_cut_twice(world, _):
    """With a slow APNs and more jobs than the prefetch: requests of lost consumers must leave room
    for the new ones' jobs."""
    in_flight = world.prefetch * len(world.workers)
    with _apns_fault(world, f"latency={SLOW_MILLISECONDS}"):
        world.inject(2 * in_flight, ["one"])
        end = time.monotonic() + 4
        while time.monotonic() < end and world.in_flight() < 0.9 * in_flight:
            time.sleep(0.1)
        for _ in range(2):
            world.note("cut", in_flight=world.in_flight())
            world.set_proxies("broker", "cut")
            time.sleep(1)
        time.sleep(2)


@fault("redis", "workers")
def redis_pause_reload(world, this):
    """Changes the limits while jobs wait for the admission of a frozen Redis."""
    world.redis.pause()
    try:
        for _ in range(2):
            world.inject(100, ["hot", "one"])
            time.sleep(0.15)
            world.reload_limits()
            time.sleep(min(this.seconds, 4) / 2)
    finally:
        world.redis.resume()


@fault("workers")
def workers_reload(world, _):
    world.inject(100, ["hot", "one"])
    world.reload_limits()


@fault("all")
def campaign_bad_tokens(world, _):
    """Most of a campaign's tokens are bad; another app of its credential has transactional jobs. No other fault is active
    meanwhile, so that the auditor can measure how long those took."""
    time.sleep(SETTLING_SECONDS + 1)
    # Any other acceptance would end a pause.
    world.producer.only_injected.set()
    try:
        jobs = []
        # One after the other: with many on the wire, the answer to one would end the pause that another began.
        for number in range(600):
            world.inject(3, CAMPAIGN_KINDS, "bulk")
            if number % 10 == 0:
                jobs += world.inject(1, ["beside"])
            time.sleep(0.02)
        _wait_quietly(35, lambda: all(job.id in world.reader.jobs for job in jobs))
    finally:
        world.producer.only_injected.clear()


@fault("all")
def sandbox_silent(world, _):
    """Another pool's APNs takes requests and answers none, with four times the prefetch of jobs in front of it; beside them transactional
    jobs of another credential. No other fault is active meanwhile, so that the auditor can measure how long those took."""
    time.sleep(SETTLING_SECONDS + 1)
    world.producer.only_injected.set()
    number = world.sandbox.add_fault("silence")
    try:
        world.inject(4 * world.prefetch * len(world.workers), ["crowd"])
        jobs = []
        for _ in range(60):
            jobs += world.inject(1, ["beside"])
            time.sleep(0.25)
        _wait_quietly(60, lambda: all(job.id in world.reader.jobs for job in jobs))
    finally:
        world.sandbox.remove_fault(number)
        world.producer.only_injected.clear()


@fault("all")
def apns_silent_stream(world, _):
    """A few streams are silent while others answer, and their requests time out. No other fault is active meanwhile."""
    time.sleep(SETTLING_SECONDS)
    with _apns_fault(world, "prefix=00fc,times=3,processed,silence"):
        world.inject(50, ["one"])
        time.sleep(REQUEST_TIMEOUT_SECONDS + 5)


# Parts


def _wait_quietly(seconds, check):
    """The auditor reports what did not come."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not check():
        time.sleep(0.1)


@contextlib.contextmanager
def _apns_fault(world, line):
    number = world.apns.add_fault(line)
    try:
        yield
    finally:
        world.apns.remove_fault(number)


def _hole(world, server, this, worker=None):
    """In the end, held bytes are delivered, or the connections are reset."""
    world.set_proxies(server, "hole", worker)
    time.sleep(this.seconds)
    world.set_proxies(server, "forward" if this.choice < 0.5 else "cut", worker)


def _refuse(world, server, this):
    world.set_proxies(server, "refuse")
    time.sleep(this.seconds / 2)
    world.set_proxies(server, "forward")


def _delete(world, queue):
    """A broker that was just restarted does not have all its queues yet."""

    def is_deleted():
        connection = world.rabbitmq.connect()
        try:
            connection.channel().queue_delete(queue)
            return True
        except pika.exceptions.ChannelClosedByBroker:
            return False
        finally:
            connection.close()

    wait_until(f"{queue} is deleted", 30, is_deleted, every=0.2)
    world.note("deleted", queue=queue)
