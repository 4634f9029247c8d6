"""Devices of two apps, jobs for audiences of them, and Live Activities: registered and published with confirms, and their record.

The apps are tenants that name devices, users and activities alike. Some names are twins: equal only canonically, in different bytes."""

import json
import random
import threading
import time
import unicodedata

import pika
from pika.adapters.utils.connection_workflow import AMQPConnectorException

import parts
from herald import AUDIENCE_APPS

# Of each app.
DEVICES = 40
_DEVICES_OF_USER = 4
# The last two users and their devices, in pairs.
_TWINS_FROM = 32
# Apps register again when they start: what Redis lost it knows again soon.
REGISTER_SECONDS = 3
ACTIVITY_SECONDS = 5


def composed(text):
    return unicodedata.normalize("NFC", text)


def decomposed(text):
    return unicodedata.normalize("NFD", text)


def encode(document, number):
    """With escapes in every second one."""
    return json.dumps(document, ensure_ascii=number % 2 == 0).encode()


# By number mod 4: a tag's name and its value.
_FORMS = [(composed, composed), (decomposed, decomposed), (composed, decomposed), (decomposed, composed)]
_TAG, _VALUE = "caf\u00e9", "cr\u00e8me"
# By code: the filter, and the numbers of the devices that it finds.
SEGMENTS = {
    "GOLD": ({"tag": "plan", "is": "gold"}, range(0, DEVICES, 2)),
    "COMPOSED": ({"tag": composed(_TAG), "is": composed(_VALUE)}, range(0, DEVICES, 4)),
    "DECOMPOSED": ({"tag": decomposed(_TAG), "is": decomposed(_VALUE)}, range(1, DEVICES, 4)),
}


class AudienceJob:
    """`devices`: the names of its audience; None: the members of its activity."""

    def __init__(self, job_id, app, kind, devices, body, activity=None, number=None):
        self.id = job_id
        self.app = app
        self.kind = kind
        self.devices = devices
        self.body = body
        self.activity = activity
        # In the content state that devices show.
        self.number = number
        # Unix times; None: not yet.
        self.published_at = None
        self.confirmed_at = None


def _twin(text, number):
    return (decomposed if number % 2 else composed)(f"{text}-{number // 2}")


def device(number):
    return f"phone-{number}" if number < _TWINS_FROM else _twin("t\u00e9l\u00e9phone", number)


def user(number):
    return f"user-{number}" if number < _TWINS_FROM // _DEVICES_OF_USER else _twin("us\u00e9r", number)


_NUMBERS = {device(number): number for number in range(DEVICES)}


def start_token(app, number):
    return f"00fc{AUDIENCE_APPS.index(app):02x}{number:058x}"


def token(app, number):
    return f"00fd{AUDIENCE_APPS.index(app):02x}{number:058x}"


def tokens_of(app, name):
    """What a push for this device may go to; update tokens are APNs' own."""
    number = _NUMBERS.get(name)
    return set() if number is None else {token(app, number), start_token(app, number)}


OWNERS = {one: app for app in AUDIENCE_APPS for name in _NUMBERS for one in tokens_of(app, name)}


def registration(app, number):
    """Each third device is too old for channels."""
    form_name, form_value = _FORMS[number % 4]
    return {
        "kind": "device", "at": int(time.time() * 1000), "app": app, "device": device(number),
        "user": user(number // _DEVICES_OF_USER), "token": token(app, number),
        "push_to_start": {"*": start_token(app, number)}, "os_version": "17.7" if number % 3 == 2 else "18.1",
        "tags": {"plan": "gold" if number % 2 == 0 else "free", form_name(_TAG): form_value(_VALUE)},
    }


class Maker:
    """Jobs from a seed: alerts for users, devices and segments, and the lives of activities."""

    def __init__(self, seed):
        self.random = random.Random(f"audiences {seed}")
        self.run = self.random.getrandbits(32)
        self.count = 0
        self.activities = 0

    def _job(self, app, kind, to, devices, payload, activity=None, number=None):
        """`number`: its place among the jobs of its activity, whatever order they are published in."""
        self.count += 1
        job_id = f"audience-{self.run}-{self.count}"
        document = {"version": 1, "id": job_id, "app": app, "to": to, "payload": {"aps": payload},
                    "push_type": "alert" if activity is None else "liveactivity"}
        if kind == "start":
            document["activity"] = activity
        if number is not None:
            document["sequence"] = number
        return AudienceJob(job_id, app, kind, devices, encode(document, self.count), activity, number)

    def _users(self):
        users = sorted(self.random.sample(range(DEVICES // _DEVICES_OF_USER), self.random.randint(1, 5)))
        members = {device(number) for number in range(DEVICES) if number // _DEVICES_OF_USER in users}
        return {"users": [user(one) for one in users]}, members

    def alert(self):
        choice = self.random.randrange(3)
        if choice == 0:
            code = self.random.choice(sorted(SEGMENTS))
            to, devices = {"segment": code}, {device(number) for number in SEGMENTS[code][1]}
        elif choice == 1:
            devices = {device(number) for number in self.random.sample(range(DEVICES), 7)}
            to = {"devices": sorted(devices)}
        else:
            to, devices = self._users()
        return self._job(self.random.choice(AUDIENCE_APPS), "alert", to, devices, {"alert": "Chaos"})

    def lives(self):
        """The lives of one activity, or of two at once: one app's and its twin's, or both apps' of one name."""
        self.activities += 1
        name = f"rid\u00e9-{self.run}-{self.activities}"
        app, other = self.random.sample(AUDIENCE_APPS, 2)
        pairs = [(app, composed(name)), (app, decomposed(name)), (other, composed(name))]
        return [self._life(*pair) for pair in self.random.choice([pairs[:1], pairs[1:2], pairs[:2], pairs[::2]])]

    def _life(self, app, name):
        """(seconds from its start, job) for each job of one activity's life."""
        self.activities += 1
        first = 1000 * self.activities
        to, devices = self._users()
        start = {"event": "start", "attributes-type": "Ride", "attributes": {}, "content-state": {"n": first},
                 "alert": {"title": "t", "body": "b"}}
        life = [(0.0, self._job(app, "start", to, devices, start, name, first))]
        # Some producers publish all at once, and not in order.
        is_burst = self.random.random() < 0.4
        at = 1.0
        for number in range(first + 1, first + (5 if is_burst else 2) + self.random.randrange(4)):
            at += 0 if is_burst else self.random.uniform(0.3, 2.5)
            update = {"event": "update", "content-state": {"n": number}}
            life.append((at, self._job(app, "update", {"activity": name}, None, update, name, number)))
        if self.random.random() < 0.5:
            end = {"event": "end", "content-state": {"n": first + 99}}
            last = self._job(app, "end", {"activity": name}, None, end, name, first + 99)
            life.append((at + (0 if is_burst else 2), last))
        if is_burst:
            life[1:] = self.random.sample(life[1:], len(life) - 1)
        return life


class Audiences(threading.Thread):
    """Publishes one alert a second, begins an activity every few seconds, and registers devices, until `finish`."""

    def __init__(self, rabbitmq, prefix, seed, put_segment):
        """`put_segment`: takes app, code and filter; returns whether Redis took it."""
        super().__init__(name="audiences", daemon=True)
        self.parameters = rabbitmq.parameters(heartbeat=10)
        self.prefix = prefix
        self.maker = Maker(seed)
        self.parts = parts.Maker(seed)
        self.put_segment = put_segment
        self.jobs = {}
        # Registrations in parts.
        self.registered = []
        # Unix time before the newest registrations of all devices.
        self.registered_at = None
        # While set, no job is published.
        self.paused = threading.Event()
        self._agenda = []
        self._segments = [(app, code) for app in AUDIENCE_APPS for code in SEGMENTS]
        self._finishing = threading.Event()
        self._channel = None

    def finish(self):
        """No new jobs; those of the agenda are still published."""
        self._finishing.set()
        self.join()

    def run(self):
        began = time.monotonic()
        next_alert, next_activity, next_registration = 0.0, 2.0, 0.0
        while True:
            now = time.monotonic() - began
            if now >= next_registration:
                next_registration = now + REGISTER_SECONDS
                self.register()
                self._put_segments(2)
                self._register_parts()
            if not self._finishing.is_set() and now >= next_alert:
                next_alert = now + 1
                self._agenda.append((now, self.maker.alert()))
            if not self._finishing.is_set() and now >= next_activity:
                next_activity = now + ACTIVITY_SECONDS
                self._agenda += [(now + at, job) for life in self.maker.lives() for at, job in life]
            due = sorted((entry for entry in self._agenda if entry[0] <= now), key=lambda entry: entry[0])
            for entry in due:
                if self.paused.is_set():
                    break
                self._agenda.remove(entry)
                self._publish_job(entry[1])
            if self._finishing.is_set() and not self._agenda:
                return
            time.sleep(0.05)

    def register(self):
        self.registered_at = time.time()
        for number in range(DEVICES):
            for app in AUDIENCE_APPS:
                self._publish("", f"{self.prefix}.registrations", encode(registration(app, number), number // 4), None)

    def put_all_segments(self):
        self._put_segments(len(self._segments))

    def _put_segments(self, count):
        """The next ones in turn. Needs Redis: if it is away, or was emptied, the next time tells."""
        for _ in range(count):
            app, code = self._segments[0]
            if not self.put_segment(app, code, json.dumps(SEGMENTS[code][0])):
                return
            self._segments.append(self._segments.pop(0))

    def _register_parts(self):
        for part in self.parts.round():
            part.published_at = time.time()
            self.registered.append(part)
            self._publish("", f"{self.prefix}.registrations", part.body, None)

    def _publish_job(self, job):
        job.published_at = time.time()
        self.jobs[job.id] = job
        self._publish(f"{self.prefix}.jobs", "transactional", job.body, job.id)
        job.confirmed_at = time.time()

    def _publish(self, exchange, routing_key, body, message_id):
        """Returns once it is confirmed; until then it is published again."""
        properties = pika.BasicProperties(
            content_type="application/json", delivery_mode=2, message_id=message_id, timestamp=int(time.time()))
        while True:
            try:
                if self._channel is None:
                    self._channel = pika.BlockingConnection(self.parameters).channel()
                    self._channel.confirm_delivery()
                self._channel.basic_publish(exchange, routing_key, body, properties, mandatory=True)
                return
            except (pika.exceptions.AMQPError, AMQPConnectorException, OSError):
                # Also a negative confirm, or a queue that is not there.
                self._channel = None
                time.sleep(0.2)
