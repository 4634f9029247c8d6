"""Messages that no honest producer or worker publishes: headers of Herald's own, properties and numbers have every type and extreme values, and
some bytes of their bodies are wrong."""

import json
import random
import struct
import threading
import time

import pika
from pika.adapters.utils.connection_workflow import AMQPConnectorException

from herald import FORGED_APP

# Begins every id.
MARK = "forged-"
ID_LENGTH = len(MARK) + 6
_SECONDS_BETWEEN = 0.4
_TOKEN = "f0f0" + 60 * "0"

# At which a bound, a width or a sign changes.
_NUMBERS = [0, 1, -1, 2, 127, 128, 255, 256, 499, 500, 501, 32_767, 32_768, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53,
            2**53 + 1, 1_796_000_000, 1_796_000_000_000, 2**63 - 1, 2**63 - 2, -2**63, -2**63 + 1]
_HEADERS = [f"x-herald-{name}" for name in (
    "attempts", "first-seen", "claim", "ambiguous", "apns-id", "deliveries", "redeliveries", "replay", "reason", "detail", "class", "cursor",
    "publish", "count", "order", "paused-at", "waits", "returning", "undelivered", "routing-key", "isolated")] + [
    "x-delivery-count", "x-death", "x-first-death-queue", "x-first-death-reason", "traceparent", "tracestate"]
_INTEGERS = {"b": 1, "B": 1, "s": 2, "u": 2, "I": 4, "i": 4, "l": 8}


class _Raw:
    """A field of AMQP, byte for byte."""

    def __init__(self, kind, data):
        self.data = kind.encode() + data


def _encode_value(pieces, value, others=pika.data.encode_value):
    if not isinstance(value, _Raw):
        return others(pieces, value)
    pieces.append(value.data)
    return len(value.data)


pika.data.encode_value = _encode_value


class Forged:
    """`must_end`: it is a job, so its end is told whatever is wrong with it."""

    def __init__(self, message_id, exchange, routing_key, properties, body, must_end):
        self.id = message_id
        self.exchange = exchange
        self.routing_key = routing_key
        self.properties = properties
        self.body = body
        self.must_end = must_end
        # Unix time; None: not yet.
        self.confirmed_at = None


def is_forged(message_id, body):
    """`message_id`: bytes where it is not UTF-8."""
    text = message_id.decode(errors="replace") if isinstance(message_id, bytes) else message_id
    return text.startswith(MARK) or any(f'"{word}'.encode() in body for word in (MARK, FORGED_APP))


class Maker:
    def __init__(self, prefix, seed):
        self.prefix = prefix
        self.random = random.Random(f"forged {seed}")
        self.count = 0

    def make(self):
        self.count += 1
        chance = self.random
        own_id = f"{MARK}{self.count:06d}"
        kinds = self._kinds(own_id)
        # Jobs for devices have the longest way.
        kind = "job" if chance.random() < 0.35 else chance.choice(sorted(kinds))
        place, document = kinds[kind]
        body = json.dumps(document, separators=(",", ":")).encode()
        if chance.random() < 0.5:
            for _ in range(chance.randint(1, 3)):
                body = self._change(body, own_id)
        if kind == "job" and chance.random() < 0.08:
            # Too large for a worker to read: only its properties identify it.
            body = body[:1] + 600_000 * b" " + body[1:]
        exchange, keys = {
            "jobs": (f"{self.prefix}.jobs", ["transactional", "bulk", "isolated"]),
            "expansions": ("", [f"{self.prefix}.expansions", f"{self.prefix}.expansions.bulk"]),
            "registrations": ("", [f"{self.prefix}.registrations"]),
            "channels": ("", 3 * [f"{self.prefix}.channels"] + [f"{self.prefix}.channels.isolated"]),
        }[place]
        return Forged(own_id, exchange, chance.choice(keys), self._properties(own_id), body,
                      kind in ("job", "batch", "audience", "start", "update"))

    def _kinds(self, own_id):
        """Where a message of each kind goes, and what it says."""
        head = {"version": 1, "id": own_id, "app": FORGED_APP}
        alert = {"push_type": "alert", "payload": {"aps": {"alert": "hello"}}}
        update = {"push_type": "liveactivity", "payload": {"aps": {"timestamp": 1, "event": "update", "content-state": {"n": 1}}}}
        start = {"push_type": "liveactivity", "payload": {"aps": {
            "timestamp": 1, "event": "start", "content-state": {}, "attributes-type": "A", "attributes": {}, "alert": "x"}}}
        of_activity = {"parent_id": own_id, "activity": own_id, "revision": 1}
        registration = {"version": 1, "at": 1_796_000_000_000, "app": FORGED_APP, "device": "forged-device"}
        return {
            "job": ("jobs", head | alert | {
                "to": {"token": _TOKEN}, "priority": 10, "expiration": 1_896_009_999, "collapse_id": "c1",
                "token_registered_at": 1_795_996_800_000, "sequence": 1}),
            "batch": ("jobs", head | alert | {"to": {"tokens": [_TOKEN, f"{_TOKEN}ff", "aaaa0000"]}}),
            "page": ("jobs", head | alert | {
                "id": f"{own_id}/0", "parent_id": own_id, "to": {"page": 0, "position": 0, "ordinals": [0, 1, 2, 5], "epoch": 1}}),
            "late": ("jobs", head | update | of_activity | {
                "id": f"{own_id}/late/d1", "to": {"page": 4294967295, "ordinals": [1], "late": "d1"}}),
            "broadcast": ("jobs", head | update | of_activity | {
                "id": f"{own_id}/channel", "to": {"channel": "AAAAAAAAAAAAAAAAAAAAAA=="}}),
            "audience": ("jobs", head | alert | {"to": {"devices": ["forged-device", "phone-1"]}, "dry_run": True}),
            "start": ("jobs", head | start | {"activity": own_id, "to": {"devices": ["forged-device"]}}),
            "update": ("jobs", head | update | {"to": {"activity": own_id}, "sequence": 1}),
            "settlement": ("expansions", {
                "settles": own_id, "app": FORGED_APP, "environment": "production", "page": 0, "position": 0, "ends": "aa",
                "ordinals": "1:0,1"}),
            "step": ("expansions", head | alert | {"to": {"devices": ["forged-device"]}}),
            "device": ("registrations", registration | {
                "kind": "device", "user": "forged-user", "token": _TOKEN, "locale": "en", "os_version": "18.1",
                "tags": {"level": {"increment": 1}, "plan": "gold", "n": 1}}),
            "activity": ("registrations", registration | {"kind": "activity", "activity": own_id, "token": _TOKEN}),
            "forget": ("registrations", registration | {"kind": "forget"}),
            "channel": ("channels", head | {"action": "read", "channel": "AAAAAAAAAAAAAAAAAAAAAA=="}),
        }

    def _properties(self, own_id):
        chance = self.random
        properties = pika.BasicProperties(message_id=own_id.encode() + self._bytes(140), delivery_mode=2)
        if chance.random() < 0.5:
            properties.correlation_id = self._bytes(255)
        if chance.random() < 0.3:
            properties.reply_to = MARK.encode() + self._bytes(100)
        if chance.random() < 0.5:
            properties.timestamp = self._number() % 2**64
        if chance.random() < 0.25:
            properties.priority = self._number() % 256
        if chance.random() < 0.25:
            properties.type = self._bytes(255)
        if chance.random() < 0.9:
            names = chance.sample(_HEADERS, chance.randint(1, 8))
            # RabbitMQ itself reads the lists in `x-death`.
            properties.headers = {name: self._value(depth=3 if name == "x-death" else 0) for name in names}
        return properties

    def _number(self):
        return self.random.choice(_NUMBERS) if self.random.random() < 0.75 else self.random.randrange(-2**63, 2**63)

    def _bytes(self, maximum):
        """Often not UTF-8."""
        count = maximum if self.random.random() < 0.3 else self.random.randrange(12)
        return self.random.choice([self.random.randbytes(count), count * b"\xff", count * b"x"])

    def _integer(self, kind="l"):
        size = _INTEGERS[kind]
        return _Raw(kind, (self._number() % 2**64).to_bytes(8, "big")[-size:])

    def _value(self, depth=0):
        """A header's value, of any type."""
        chance = self.random
        if chance.random() < 0.5:
            return self._integer()
        choice = chance.randrange(11 if depth < 3 else 9)
        if choice == 9:
            return [self._value(depth + 1) for _ in range(chance.randrange(4))]
        if choice == 10:
            return {str(name): self._value(depth + 1) for name in range(chance.randrange(4))}
        text = chance.choice([self._bytes(5000), str(self._number()).encode()])
        numbers = ":".join(str(self._number()) for _ in range(4)).encode()
        return [
            lambda: chance.random() < 0.5, lambda: self._integer(chance.choice(sorted(_INTEGERS))),
            lambda: _Raw("T", struct.pack(">Q", chance.choice([0, 1, 1_796_000_000, 2**32, 2**36]))),
            lambda: _Raw("S", struct.pack(">I", len(text)) + text), lambda: _Raw("S", struct.pack(">I", len(numbers)) + numbers),
            lambda: self._bytes(5000), lambda: None, lambda: _Raw("d", struct.pack(">d", chance.choice([0.5, -1.0, 1e300]))), lambda: "transactional",
        ][choice]()

    def _change(self, body, own_id):
        """Replaces a number, or changes a byte, and leaves the id at the start as it is."""
        first = body.find(own_id.encode()) + len(own_id) if own_id.encode() in body else 0
        place = self.random.randrange(first, len(body))
        if self.random.random() < 0.25:
            return body[:place] + self.random.randbytes(1) + body[place + 1:]
        start = next((at for at in range(place, len(body)) if body[at:at + 1].isdigit()), None)
        if start is None:
            return body
        end = next((at for at in range(start, len(body)) if not body[at:at + 1].isdigit()), len(body))
        return body[:start] + str(self._number()).encode() + body[end:]


class Forger(threading.Thread):
    """Publishes a forged message now and then, until `finish`."""

    def __init__(self, rabbitmq, prefix, seed):
        super().__init__(name="forger", daemon=True)
        self.parameters = rabbitmq.parameters(heartbeat=10)
        self.maker = Maker(prefix, seed)
        self.messages = []
        # While set, nothing is published.
        self.paused = threading.Event()
        self._finishing = threading.Event()
        self._channel = None

    def finish(self):
        self._finishing.set()
        self.join()

    def run(self):
        while not self._finishing.wait(_SECONDS_BETWEEN):
            if not self.paused.is_set():
                self.messages.append(self.maker.make())
                self._publish(self.messages[-1])

    def _publish(self, message):
        """Returns once it is confirmed; until then it is published again."""
        while True:
            try:
                if self._channel is None:
                    self._channel = pika.BlockingConnection(self.parameters).channel()
                    self._channel.confirm_delivery()
                self._channel.basic_publish(message.exchange, message.routing_key, message.body, message.properties, mandatory=True)
                message.confirmed_at = time.time()
                return
            except (pika.exceptions.AMQPError, AMQPConnectorException, OSError):
                self._channel = None
                time.sleep(0.2)
