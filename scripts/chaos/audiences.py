"""Devices of an app of their own, jobs for audiences of them, and Live Activities: registered and published with confirms, and their record."""

import json
import random
import threading
import time

import pika
from pika.adapters.utils.connection_workflow import AMQPConnectorException

from herald import AUDIENCE_APP

DEVICES = 40
_DEVICES_OF_USER = 4
# Apps register again when they start: what Redis lost it knows again soon.
REGISTER_SECONDS = 3
SEGMENT = "GOLD"


class AudienceJob:
    """`devices`: the names of its audience; None: the members of its activity."""

    def __init__(self, job_id, kind, devices, body, activity=None, number=None):
        self.id = job_id
        self.kind = kind
        self.devices = devices
        self.body = body
        self.activity = activity
        # In the content state that devices show.
        self.number = number
        # Unix times; None: not yet.
        self.published_at = None
        self.confirmed_at = None


def device(number):
    return f"phone-{number}"


def start_token(number):
    return f"00fc{number:060x}"


def token(number):
    return f"00fd{number:060x}"


def tokens_of(name):
    """What a push for this device may go to; update tokens are APNs' own."""
    number = int(name.removeprefix("phone-"))
    return {token(number), start_token(number)}


def registration(number):
    """Each third device is too old for channels."""
    return {
        "kind": "device", "at": int(time.time() * 1000), "app": AUDIENCE_APP, "device": device(number),
        "user": f"user-{number // _DEVICES_OF_USER}", "token": token(number),
        "push_to_start": {"*": start_token(number)}, "os_version": "17.7" if number % 3 == 2 else "18.1",
        "tags": {"plan": "gold" if number % 2 == 0 else "free"},
    }


class Maker:
    """Jobs from a seed: alerts for users, devices and a segment, and the lives of activities."""

    def __init__(self, seed):
        self.random = random.Random(f"audiences {seed}")
        self.run = self.random.getrandbits(32)
        self.count = 0
        self.activities = 0

    def _job(self, kind, to, devices, payload, activity=None, number=None):
        """`number`: its place among the jobs of its activity, whatever order they are published in."""
        self.count += 1
        job_id = f"audience-{self.run}-{self.count}"
        document = {"version": 1, "id": job_id, "app": AUDIENCE_APP, "to": to, "payload": {"aps": payload},
                    "push_type": "alert" if activity is None else "liveactivity"}
        if kind == "start":
            document["activity"] = activity
        if number is not None:
            document["sequence"] = number
        return AudienceJob(job_id, kind, devices, json.dumps(document).encode(), activity, number)

    def _users(self):
        users = sorted(self.random.sample(range(DEVICES // _DEVICES_OF_USER), self.random.randint(1, 5)))
        members = {device(number) for number in range(DEVICES) if number // _DEVICES_OF_USER in users}
        return {"users": [f"user-{user}" for user in users]}, members

    def alert(self):
        choice = self.random.randrange(3)
        if choice == 0:
            to, devices = {"segment": SEGMENT}, {device(number) for number in range(0, DEVICES, 2)}
        elif choice == 1:
            devices = {device(number) for number in self.random.sample(range(DEVICES), 7)}
            to = {"devices": sorted(devices)}
        else:
            to, devices = self._users()
        return self._job("alert", to, devices, {"alert": "Chaos"})

    def activity(self):
        """(seconds from its start, job) for each job of one activity's life."""
        self.activities += 1
        name, first = f"ride-{self.run}-{self.activities}", 1000 * self.activities
        to, devices = self._users()
        start = {"event": "start", "attributes-type": "Ride", "attributes": {}, "content-state": {"n": first},
                 "alert": {"title": "t", "body": "b"}}
        life = [(0.0, self._job("start", to, devices, start, name, first))]
        # Some producers publish all at once, and not in order.
        is_burst = self.random.random() < 0.4
        at = 1.0
        for number in range(first + 1, first + (5 if is_burst else 2) + self.random.randrange(4)):
            at += 0 if is_burst else self.random.uniform(0.3, 2.5)
            update = {"event": "update", "content-state": {"n": number}}
            life.append((at, self._job("update", {"activity": name}, None, update, name, number)))
        if self.random.random() < 0.5:
            end = {"event": "end", "content-state": {"n": first + 99}}
            life.append((at + (0 if is_burst else 2), self._job("end", {"activity": name}, None, end, name, first + 99)))
        if is_burst:
            life[1:] = self.random.sample(life[1:], len(life) - 1)
        return life


class Audiences(threading.Thread):
    """Publishes one alert a second, and begins an activity every few seconds, until `finish`."""

    def __init__(self, rabbitmq, prefix, seed, put_segment):
        super().__init__(name="audiences", daemon=True)
        self.parameters = rabbitmq.parameters(heartbeat=10)
        self.prefix = prefix
        self.maker = Maker(seed)
        self.put_segment = put_segment
        self.jobs = {}
        self._agenda = []
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
            if not self._finishing.is_set() and now >= next_alert:
                next_alert = now + 1
                self._agenda.append((now, self.maker.alert()))
            if not self._finishing.is_set() and now >= next_activity:
                next_activity = now + 4
                self._agenda += [(now + at, job) for at, job in self.maker.activity()]
            due = sorted((entry for entry in self._agenda if entry[0] <= now), key=lambda entry: entry[0])
            for entry in due:
                self._agenda.remove(entry)
                self._publish_job(entry[1])
            if self._finishing.is_set() and not self._agenda:
                return
            time.sleep(0.05)

    def register(self):
        for number in range(DEVICES):
            self._publish("", f"{self.prefix}.registrations", json.dumps(registration(number)).encode(), None)
        # Needs Redis: if it is away, or was emptied, the next time tells.
        self.put_segment()

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
