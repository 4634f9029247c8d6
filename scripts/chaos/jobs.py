"""Jobs of every kind, from a seed, and the allowed outcomes of each."""

import json
import random
import time
import unicodedata
import uuid

from herald import AGE_MAXIMUM_SECONDS, APP, BESIDE_APP, CAMPAIGN_APP, LIMITED_APP

# By prefix of the device token: the allowed outcomes, and whether APNs may accept a push to it.
FATES = {
    "00fc": ({"accepted"}, True),
    "1429": ({"accepted"}, True),
    "1503": ({"accepted"}, True),
    "2503": ({"accepted"}, True),
    "d0b0": ({"accepted"}, True),
    "d0a0": ({"accepted"}, True),
    "f008": ({"accepted"}, True),
    "f007": ({"accepted"}, True),
    "51a1": ({"accepted"}, True),
    "ab51": ({"accepted"}, True),
    "dead": ({"unregistered"}, False),
    "dea2": ({"unregistered"}, False),
    "bad0": ({"rejected"}, False),
    "5030": ({"failed"}, False),
}

# Kinds of jobs: their weights, and the prefixes of their device tokens.
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
    # Published twice at once and again later, while APNs takes a second for it; of a batch, and after its expiration.
    "doubled": (40, ["51a1"]),
    "doubled-batch": (10, ["51a1", "00fc", "51a1"]),
    "doubled-soon": (10, ["00fc"]),
    # Hours old by its `timestamp`; too old before its attempts are used up.
    "old": (20, ["00fc"]),
    "aging": (5, ["5030"]),
    # Over the rate of its device now and then; newer ones supersede those that wait.
    "hot": (60, ["00fc"]),
    "adorned": (60, ["00fc", "1503", "00fc"]),
    # A 410 that is older than the job's `token_registered_at`, and then a job without that field.
    "reborn": (15, ["dead"]),
    "reborn-long-ago": (5, ["dea2"]),
    # A token that another job has in production.
    "sandbox": (60, ["00fc"]),
    # The first try is never answered.
    "hushed": (4, ["ab51"]),
    "beside": (60, ["00fc"]),
    "oversized": (1, ["00fc"]),
    # Two whose ids are equal only canonically: each has its own push and outcome.
    "twin": (15, ["00fc"]),
    # With headers of the worker's own, copied or forged by its producer.
    "forged": (20, ["00fc"]),
}

# Published by faults only.
CAMPAIGN_KINDS = {"campaign-bad": (600, ["bad0"]), "campaign-good": (400, ["00fc"])}
_CROWD_KINDS = {"crowd": (1, ["00fc"])}

# What a producer, a shovel or an operator may put into a header: each type of AMQP, at its ends.
_FORGED_NAMES = ["attempts", "cursor", "claim", "first-seen", "redeliveries", "isolated", "replay", "apns-id", "ambiguous"]
_FORGED_VALUES = [0, -1, 2**31 - 1, -2**31, 2**32 - 1, 2**63 - 1, -2**63, "", "4294967295", "\u00e9\u0000", b"\xff\xfe", True, None,
                  [1, "x"], {"x": 1}]

_ALL_KINDS = KINDS | CAMPAIGN_KINDS | _CROWD_KINDS
_APPS = {"hot": LIMITED_APP, "beside": BESIDE_APP, "campaign-bad": CAMPAIGN_APP, "campaign-good": CAMPAIGN_APP}
_HOT_DEVICES = 8
_OVERSIZED_BYTES = 530_000

# `apns-id` of a target is the id itself, or the version-5 UUID in this namespace; as documented for producers.
_NAMESPACE = uuid.UUID("66f0f2ab-a559-4457-9a4d-d3d9f5a2fb2a")


class Job:
    __slots__ = ("id", "job_class", "kind", "tokens", "body", "app", "environment", "collapse_id", "expiration",
                 "token_registered_at", "timestamp", "later", "headers", "publishes", "published_at", "confirmed_at")

    def __init__(self, job_id, job_class, kind, tokens, body, app=APP, environment="production"):
        self.id = job_id
        self.job_class = job_class
        self.kind = kind
        self.tokens = tokens
        self.body = body
        self.app = app
        self.environment = environment
        self.collapse_id = None
        # Unix seconds; None: it has none.
        self.expiration = None
        # Unix milliseconds.
        self.token_registered_at = None
        # The AMQP property, the same in every copy: Unix seconds, by default those of the first publish.
        self.timestamp = None
        # What the producer publishes this many seconds later: a job; None: this one again.
        self.later = []
        # AMQP headers.
        self.headers = None
        self.publishes = 0
        # Unix time of the first publish.
        self.published_at = None
        # Unix time; None while the broker has not confirmed it.
        self.confirmed_at = None

    @property
    def is_refused(self):
        """The job itself is invalid: one outcome, whatever its targets."""
        return self.kind in ("wrong", "broken", "oversized")

    @property
    def ends_at(self):
        """Unix seconds after which it must not be sent; None: it was not published."""
        ends = [self.timestamp + AGE_MAXIMUM_SECONDS] if self.timestamp else []
        return min(ends + [self.expiration] if self.expiration else ends, default=None)

    def targets(self):
        """For each required outcome: its token, its `apns-id`, the allowed outcomes, whether APNs may accept it."""
        if self.is_refused:
            yield None, None, {"invalid"}, False
            return
        for token in self.tokens:
            allowed, may_accept = FATES[token[:4]] if self.environment == "production" else ({"accepted"}, True)
            if self.kind in ("late", "old", "aging"):
                allowed, may_accept = {"expired"}, False
            elif self.kind in ("soon", "doubled-soon"):
                allowed = {"accepted", "expired"}
            elif self.kind == "forged":
                # A worker may believe what the headers say about the job itself: that its attempts are used up, or that it is old.
                allowed = {"accepted", "failed", "expired"}
            elif self.kind == "hot":
                allowed = {"accepted", "throttled"}
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
        self.weights = [_ALL_KINDS[kind][0] for kind in self.kinds]
        self.run = self.random.getrandbits(32)
        self.job_class = job_class
        self.count = first
        # The newest of production, for the sandbox.
        self.token = f"00fc{first:060x}"

    def make(self):
        kind = self.random.choices(self.kinds, self.weights)[0]
        job_class = self.job_class or ("bulk" if self.random.random() < 0.5 else "transactional")
        number = self.count
        self.count += 1
        is_uuid = kind not in ("named", "batch", "adorned", "doubled-batch", "twin")
        job_id = self._uuid() if is_uuid else f"job-{self.run}-{number}"
        if kind == "twin":
            job_id = f"j\u00f6b-{self.run}-{number}"
        tokens = [f"{prefix}{number:044x}{index:016x}" for index, prefix in enumerate(_ALL_KINDS[kind][1])]
        if kind == "beside":
            job_class = "transactional"
        elif kind == "hot":
            tokens = [f"00fc{self.run:044x}{self.random.randrange(_HOT_DEVICES):016x}"]
        elif kind == "sandbox":
            tokens = [self.token]
        else:
            self.token = tokens[0]
        job = Job(job_id, job_class, kind, tokens, None, _APPS.get(kind, APP),
                  "sandbox" if kind in ("sandbox", "crowd") else "production")
        self._adorn(job)
        job.body = self._body(job, number)
        return job

    def _uuid(self):
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def _adorn(self, job):
        """The fields of a job besides its targets, by its kind."""
        now = int(time.time())
        if job.kind == "late":
            job.expiration = now - 3600
        elif job.kind == "soon":
            job.expiration = now + self.random.randint(3, 20)
        elif job.kind == "old":
            job.timestamp = now - 2 * AGE_MAXIMUM_SECONDS
        elif job.kind == "aging":
            job.timestamp = now - AGE_MAXIMUM_SECONDS + 10
        elif job.kind in ("doubled", "doubled-batch"):
            job.later = [(0, None), (self.random.uniform(0.2, 6), None)]
        elif job.kind == "doubled-soon":
            job.expiration = now + 4
            job.later = [(8, None)]
        elif job.kind == "forged":
            names = self.random.sample(_FORGED_NAMES, self.random.randint(1, 3))
            job.headers = {f"x-herald-{name}": self.random.choice(_FORGED_VALUES) for name in names}
        elif job.kind == "twin":
            other = Job(unicodedata.normalize("NFD", job.id), job.job_class, "twin", job.tokens, None)
            other.body = self._body(other, 0)
            job.later = [(0, other)]
        elif job.kind == "hot":
            job.collapse_id = f"collapse-{self.random.randrange(3)}"
        elif job.kind == "adorned":
            job.collapse_id = f"collapse-{self.random.randrange(3)}"
            job.token_registered_at = (now - 100_000) * 1000
        elif job.kind in ("reborn", "reborn-long-ago"):
            job.token_registered_at = now * 1000
            after = Job(self._uuid(), job.job_class, "reborn-after", job.tokens, None)
            after.body = self._body(after, 0)
            job.later = [(4, after)]

    @staticmethod
    def _body(job, number):
        document = {
            "version": 1, "id": job.id, "app": job.app, "push_type": "alert",
            "to": {"token": job.tokens[0]} if len(job.tokens) == 1 else {"tokens": job.tokens},
            "payload": {"aps": {"alert": {"title": "Chaos", "body": f"{number}"}}}, "meta": {"number": number},
        }
        if job.environment != "production":
            document["environment"] = job.environment
        if job.kind == "wrong":
            document["priority"] = 7
        if job.kind == "oversized":
            document["payload"]["filler"] = "x" * _OVERSIZED_BYTES
        for name in ("expiration", "collapse_id", "token_registered_at"):
            if getattr(job, name) is not None:
                document[name] = getattr(job, name)
        body = json.dumps(document, separators=(",", ":")).encode()
        return body[:-20] if job.kind == "broken" else body
