"""Jobs of every fate, made from a seed, and what may become of each."""

import json
import random
import time
import uuid

# What may become of a device token that begins so, and whether APNs may accept a push to it.
FATES = {
    "00fc": ({"accepted"}, True),
    "1429": ({"accepted"}, True),
    "1503": ({"accepted"}, True),
    "2503": ({"accepted"}, True),
    "d0b0": ({"accepted"}, True),
    "d0a0": ({"accepted"}, True),
    "f008": ({"accepted"}, True),
    "f007": ({"accepted"}, True),
    "dead": ({"unregistered"}, False),
    "bad0": ({"rejected"}, False),
    "5030": ({"failed"}, False),
}

# Kinds of jobs: their part in a thousand, and the beginnings of their device tokens.
KINDS = {
    "one": (500, ["00fc"]),
    "named": (170, ["00fc"]),
    "batch": (100, ["00fc", "00fc", "00fc"]),
    "mixed": (30, ["00fc", "dead", "1503", "bad0", "00fc"]),
    "gone": (40, ["dead"]),
    "bad": (20, ["bad0"]),
    "wrong": (30, ["00fc"]),
    "broken": (10, ["00fc"]),
    "late": (20, ["00fc"]),
    "soon": (20, ["00fc"]),
    "busy": (20, ["1429"]),
    "again": (20, ["1503"]),
    "again2": (10, ["2503"]),
    "hopeless": (4, ["5030"]),
    "cut-before": (2, ["d0b0"]),
    "cut-after": (1, ["d0a0"]),
    "reset-after": (1, ["f008"]),
    "refused": (2, ["f007"]),
}

# `apns-id` of a target is the id itself, or the version-5 UUID in this namespace; as documented for producers.
_NAMESPACE = uuid.UUID("66f0f2ab-a559-4457-9a4d-d3d9f5a2fb2a")


class Job:
    __slots__ = ("id", "job_class", "kind", "tokens", "body", "publishes", "published_at", "confirmed_at")

    def __init__(self, job_id, job_class, kind, tokens, body):
        self.id = job_id
        self.job_class = job_class
        self.kind = kind
        self.tokens = tokens
        self.body = body
        self.publishes = 0
        # Unix time, of the first time.
        self.published_at = None
        # Unix time; None while the broker has not confirmed it.
        self.confirmed_at = None

    @property
    def is_refused(self):
        """The job itself is wrong: one outcome, whatever its targets."""
        return self.kind in ("wrong", "broken")

    def targets(self):
        """For each outcome that must come: its token, its `apns-id`, what it may say, whether APNs may accept it."""
        if self.is_refused:
            yield None, None, {"invalid"}, False
            return
        for token in self.tokens:
            allowed, may_accept = FATES[token[:4]]
            if self.kind == "late":
                allowed, may_accept = {"expired"}, False
            elif self.kind == "soon":
                allowed = {"accepted", "expired"}
            yield token, apns_id(self.id, token, len(self.tokens)), allowed, may_accept


def apns_id(job_id, token, count):
    if count == 1 and len(job_id) == 36:
        return job_id
    return str(uuid.uuid5(_NAMESPACE, f"{job_id}\0{token}"))


class JobMaker:
    """The same jobs for the same seed; only times differ. `job_class`: of all of them; None: of each its own.

    Makers of one run need different seeds, and `first` numbers that are no other's."""

    def __init__(self, seed, kinds=None, job_class=None, first=0):
        self.random = random.Random(f"jobs {seed}")
        self.kinds = list(kinds or KINDS)
        self.weights = [KINDS[kind][0] for kind in self.kinds]
        self.run = self.random.getrandbits(32)
        self.job_class = job_class
        self.count = first

    def make(self):
        kind = self.random.choices(self.kinds, self.weights)[0]
        job_class = self.job_class or ("bulk" if self.random.random() < 0.5 else "transactional")
        number = self.count
        self.count += 1
        is_uuid = kind not in ("named", "batch")
        job_id = str(uuid.UUID(int=self.random.getrandbits(128), version=4)) if is_uuid else f"job-{self.run}-{number}"
        tokens = [f"{prefix}{number:044x}{index:016x}" for index, prefix in enumerate(KINDS[kind][1])]
        job = {
            "version": 1, "id": job_id, "app": "com.example.app", "push_type": "alert",
            "to": {"token": tokens[0]} if len(tokens) == 1 else {"tokens": tokens},
            "payload": {"aps": {"alert": {"title": "Chaos", "body": f"{number}"}}}, "meta": {"number": number},
        }
        if kind == "wrong":
            job["priority"] = 7
        elif kind == "late":
            job["expiration"] = int(time.time()) - 3600
        elif kind == "soon":
            job["expiration"] = int(time.time()) + self.random.randint(3, 20)
        body = json.dumps(job, separators=(",", ":")).encode()
        if kind == "broken":
            body = body[:-20]
        return Job(job_id, job_class, kind, tokens, body)
