"""The outcome stream, read from a queue of our own that is bound to the results exchange."""

import json
import threading
import time

import pika
from pika.adapters.utils.connection_workflow import AMQPConnectorException

import forgeries
from herald import AUDIENCE_APPS


class Outcome:
    __slots__ = ("job_id", "app", "token", "apns_id", "outcome", "status", "attempts", "ambiguous", "suppressed", "sent_at",
                 "completed_at", "worker", "seen_at", "parent_id", "device", "channel", "revision", "summary", "detail")

    def __init__(self, document):
        self.job_id, self.app = document["job_id"], document["app"]
        target = document.get("to") or {}
        self.token = target.get("token")
        # Of audiences.
        self.device, self.channel = target.get("device"), target.get("channel")
        self.parent_id, self.revision = document.get("parent_id"), document.get("revision")
        self.summary, self.detail = document.get("summary"), document.get("detail")
        self.apns_id = document["apns_id"]
        self.outcome = document["outcome"]
        self.status = document["status"]
        self.attempts = document["attempts"]
        self.ambiguous = document["ambiguous"]
        self.suppressed = document["suppressed"]
        self.sent_at = document["sent_at"]
        self.completed_at = document["completed_at"]
        self.worker = document["worker"]
        self.seen_at = time.time()


class Reader(threading.Thread):
    """Keeps every outcome. Redeliveries after a loss of our own connection count once."""

    def __init__(self, rabbitmq, prefix, evidence):
        super().__init__(name="reader", daemon=True)
        self.parameters = rabbitmq.parameters()
        self.queue = f"{prefix}.audit"
        self.outcomes = []
        self.jobs = set()
        # Of the apps whose devices are registered: they are no producer's.
        self.audiences = []
        # Ids of forged jobs, as outcomes and replies name them; what of them is not UTF-8.
        self.forged = set()
        self.garbled = []
        self.audience_jobs = set()
        self.delivered_again = 0
        self._file = open(evidence, "ab")
        self._stopping = threading.Event()
        connection = pika.BlockingConnection(self.parameters)
        channel = connection.channel()
        channel.queue_declare(self.queue, durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_bind(self.queue, f"{prefix}.results", "#")
        connection.close()

    def run(self):
        while not self._stopping.is_set():
            try:
                self._consume()
            except (pika.exceptions.AMQPError, AMQPConnectorException, OSError):
                time.sleep(0.2)

    def finish(self):
        self._stopping.set()
        self.join()
        self._file.close()

    def first_sent_after(self, unix_milliseconds):
        """The first outcome of a request that was written after this time."""
        # The newest come last, and only the last second or two can matter.
        found = None
        for outcome in reversed(self.outcomes):
            if outcome.sent_at is None:
                continue
            if outcome.completed_at < unix_milliseconds - 5000:
                break
            if outcome.sent_at >= unix_milliseconds:
                found = outcome
        return found

    def _consume(self):
        connection = pika.BlockingConnection(self.parameters)
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1000)
        # Only these can come again: older ones were acknowledged long ago.
        recent = {(outcome.apns_id, outcome.completed_at)
                  for outcome in (*self.outcomes[-5000:], *self.audiences[-5000:])}
        last = 0
        unacknowledged = 0
        for method, properties, body in channel.consume(self.queue, inactivity_timeout=0.1):
            if method is not None:
                self._take(method, properties, body, recent)
                last = method.delivery_tag
                unacknowledged += 1
            if unacknowledged and (method is None or unacknowledged >= 200):
                channel.basic_ack(last, multiple=True)
                unacknowledged = 0
            if method is None and self._stopping.is_set():
                break
        connection.close()

    def _take(self, method, properties, body, recent):
        document = json.loads(body)
        # pika leaves as bytes what is not UTF-8.
        self.garbled += [(name, value) for name, value in vars(properties).items() if isinstance(value, bytes)]
        job_id = document.get("job_id", document.get("id"))
        if not isinstance(job_id, str) or job_id.startswith(forgeries.MARK):
            self.forged.add(job_id)
            self._file.write(body + b"\n")
            return
        if "job_id" not in document:
            # The answer about an activity's channel.
            return
        outcome = Outcome(document)
        is_again = method.redelivered and (properties.headers or {}).get("x-delivery-count", 0)
        if is_again and (outcome.apns_id, outcome.completed_at) in recent:
            self.delivered_again += 1
            return
        self._file.write(body + b"\n")
        if outcome.app in AUDIENCE_APPS:
            self.audiences.append(outcome)
            if not outcome.parent_id:
                self.audience_jobs.add(outcome.job_id)
            return
        self.outcomes.append(outcome)
        self.jobs.add(outcome.job_id)
