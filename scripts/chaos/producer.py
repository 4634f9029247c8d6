"""The producer: publishes jobs with confirms, again with the same id if no confirm came, and records them."""

import collections
import heapq
import itertools
import threading
import time

import pika

_TICK_SECONDS = 0.02
_UNCONFIRMED_MAXIMUM = 2000


class Producer(threading.Thread):
    """Publishes `rate` jobs a second (None: as many as the broker takes) until `finish`, or until there are `count`."""

    def __init__(self, rabbitmq, prefix, maker, rate=None, count=None):
        super().__init__(name="producer", daemon=True)
        self.parameters = rabbitmq.parameters(heartbeat=10)
        self.exchange = f"{prefix}.jobs"
        self.maker = maker
        self.rate = rate
        self.count = count
        self.jobs = {}
        self.confirmed = 0
        # While set, nothing is published.
        self.paused = threading.Event()
        # While set, only injected jobs are published.
        self.only_injected = threading.Event()
        self._finishing = threading.Event()
        self._again = collections.deque()
        # Jobs of faults, added by any thread.
        self._injected = collections.deque()
        # Later publishes that jobs ask for: time, number, job.
        self._later = []
        self._turns = itertools.count()
        self._unconfirmed = collections.OrderedDict()
        self._returned = set()
        self._connection = None
        self._channel = None
        self._tag = 0
        self._began = None

    # The record

    def is_all_confirmed(self):
        return not (self._again or self._injected or self._later or self._unconfirmed) and self.confirmed == len(self.jobs)

    def is_quiet(self):
        return not self._unconfirmed

    def finish(self):
        """No new jobs; those without a confirm still get theirs."""
        self._finishing.set()

    def inject(self, jobs):
        """Also publishes these, as soon as it can."""
        self._injected.extend(jobs)

    def take_over(self, jobs):
        """Adds the confirmed jobs of another producer: one record for the audit."""
        self.jobs |= jobs
        self.confirmed += len(jobs)

    # The connection

    def run(self):
        while True:
            self._connection = pika.SelectConnection(
                self.parameters, on_open_callback=self._opened, on_open_error_callback=self._failed,
                on_close_callback=self._failed)
            self._connection.ioloop.start()
            self._lose()
            time.sleep(0.2)

    def _opened(self, connection):
        connection.channel(on_open_callback=self._channel_opened)

    def _failed(self, connection, _):
        connection.ioloop.stop()

    def _channel_opened(self, channel):
        self._channel = channel
        self._tag = 0
        channel.add_on_close_callback(self._channel_closed)
        channel.add_on_return_callback(self._came_back)
        channel.confirm_delivery(self._settled, callback=lambda _: self._turn(channel))

    def _channel_closed(self, channel, _):
        if channel.connection.is_open:
            channel.connection.close()

    def _lose(self):
        """Publishes jobs without a confirm again: they may or may not be in the queue."""
        self._channel = None
        self._again.extend(self._unconfirmed.values())
        self._unconfirmed.clear()
        self._returned.clear()

    # Publishing

    def _turn(self, channel):
        if channel is not self._channel or not channel.is_open:
            return
        if not self.paused.is_set():
            self._publish_due()
        channel.connection.ioloop.call_later(_TICK_SECONDS, lambda: self._turn(channel))

    def _publish_due(self):
        now = time.monotonic()
        if self._began is None:
            self._began = now
        for _ in range(500):
            if len(self._unconfirmed) >= _UNCONFIRMED_MAXIMUM:
                return
            if self._again:
                self._publish(self._again.popleft())
            elif self._later and self._later[0][0] <= now:
                self._publish(heapq.heappop(self._later)[2])
            elif self._injected:
                self._publish(self._injected.popleft())
            elif self._finishing.is_set() or self.only_injected.is_set() or len(self.jobs) == self.count:
                return
            elif self.rate is None or len(self.jobs) < (now - self._began) * self.rate:
                self._publish(self.maker.make())
            else:
                return

    def _publish(self, job):
        self._tag += 1
        job.publishes += 1
        if job.published_at is None:
            job.published_at = time.time()
            job.timestamp = job.timestamp or int(job.published_at)
            self.jobs[job.id] = job
            for seconds, other in job.later:
                heapq.heappush(self._later, (time.monotonic() + seconds, next(self._turns), other or job))
        self._unconfirmed[self._tag] = job
        self._channel.basic_publish(
            self.exchange, job.job_class, job.body,
            pika.BasicProperties(
                content_type="application/json", delivery_mode=2, message_id=job.id, timestamp=job.timestamp,
                headers=job.headers),
            mandatory=True)

    def _came_back(self, _channel, _method, properties, _body):
        self._returned.add(properties.message_id)

    def _settled(self, frame):
        tag = frame.method.delivery_tag
        is_ack = isinstance(frame.method, pika.spec.Basic.Ack)
        if not frame.method.multiple:
            self._settle(tag, is_ack)
            return
        while self._unconfirmed:
            first = next(iter(self._unconfirmed))
            if first > tag:
                break
            self._settle(first, is_ack)

    def _settle(self, tag, is_ack):
        job = self._unconfirmed.pop(tag, None)
        if job is None:
            return
        if not is_ack or job.id in self._returned:
            self._returned.discard(job.id)
            self._again.append(job)
        elif job.confirmed_at is None:
            job.confirmed_at = time.time()
            if not job.later:
                job.body = None
            self.confirmed += 1
