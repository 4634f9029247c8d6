"""The audit of registrations in parts must notice: each test corrupts one record of a correct run. Run: python3 test_audit_parts.py"""

import itertools
import json
import unittest

import audiences
import parts
from audit import Verdict, Window
from audit_parts import audit
from herald import AUDIENCE_APPS

BEGAN = 1_800_000_000
APP = AUDIENCE_APPS[0]


class AuditPartsTests(unittest.TestCase):
    def setUp(self):
        self.registered = []
        self.known = {app: [audiences.registration(app, number) for number in range(audiences.DEVICES)] for app in AUDIENCE_APPS}

    def register(self, device, at, **fields):
        part = parts.Part({"kind": "device", "at": at, "app": APP, "device": device} | fields)
        part.published_at = BEGAN
        self.registered.append(part)

    def findings(self, windows=(), given_up=()):
        verdict = Verdict()
        audit(verdict, self.registered, BEGAN, self.known, windows, given_up)
        return {kind: len(texts) for kind, texts in verdict.findings.items()}

    def assert_is(self, *devices):
        """These are what the registrations so far say, in every order, and nothing else is."""
        known = self.known[APP]
        for order in itertools.islice(itertools.permutations(self.registered), 24):
            self.registered = list(order)
            self.known[APP] = known + [{"kind": "device"} | device for device in devices]
            self.assertEqual(self.findings(), {})
        for device in devices:
            for field in device.keys() - {"device"}:
                self.known[APP] = known + [one | ({field: "other"} if one is device else {}) for one in devices]
                self.assertEqual(self.findings(), {"field of another time": 1}, field)
                without = {name: value for name, value in device.items() if name != field}
                self.known[APP] = known + [without if one is device else one for one in devices]
                self.assertEqual(self.findings(), {"field of another time": 1}, field)
        self.known[APP] = known

    def test_each_field_is_that_of_its_latest_registration(self):
        self.register("a", 10, user="u1", locale="it", tags={"x": "1", "y": "1"})
        self.register("a", 20, user="u2", tags={"y": "2"}, token="00fb01")
        self.register("a", 15, user="u3", time_zone="Asia/Tokyo")
        self.assert_is({"device": "a", "user": "u2", "locale": "it", "tags": {"x": "1", "y": "2"}, "token": "00fb01",
                        "time_zone": "Asia/Tokyo"})

    def test_removals_and_equal_times(self):
        self.register("a", 10, user="u1", locale="it", tags={"x": "1", "y": "1"})
        self.register("a", 10, user=None, locale="de", tags={"x": None, "y": "2"})
        self.assert_is({"device": "a", "locale": "it", "tags": {"y": "2"}})

    def test_a_removal_of_all(self):
        self.register("a", 10, tags={"x": "1"}, push_to_start={"*": "00fb01"})
        self.register("a", 20, tags=None, push_to_start=None)
        self.register("a", 30, tags={"y": "1"}, push_to_start={"Ride": "00fb02"})
        self.assert_is({"device": "a", "tags": {"y": "1"}, "push_to_start": {"Ride": "00fb02"}})

    def test_increments_count_from_the_last_value_on_and_once(self):
        self.register("a", 10, tags={"n": {"increment": 1}})
        self.register("a", 20, tags={"n": 5})
        self.register("a", 20, tags={"n": {"increment": 2}})
        self.register("a", 30, tags={"n": {"increment": 4}})
        self.register("a", 30, tags={"n": {"increment": 4}})
        self.assert_is({"device": "a", "tags": {"n": 11}})
        self.register("a", 40, tags={"n": None})
        self.register("a", 50, tags={"n": {"increment": 3}})
        self.assert_is({"device": "a", "tags": {"n": 3}})

    def test_a_token_is_the_later_devices(self):
        one, other = "\u00e1", "a\u0301"
        self.register(one, 10, token="00fb01", user="u", push_to_start={"*": "00fb02"})
        self.register(other, 20, user="u")
        self.assert_is({"device": one, "user": "u", "token": "00fb01", "push_to_start": {"*": "00fb02"}}, {"device": other, "user": "u"})
        self.register(other, 30, token="00fb01", push_to_start={"Ride": "00fb02"})
        self.assert_is({"device": one, "user": "u"},
                       {"device": other, "user": "u", "token": "00fb01", "push_to_start": {"Ride": "00fb02"}})
        self.register(other, 40, token="00fb03")
        self.assert_is({"device": one, "user": "u"},
                       {"device": other, "user": "u", "token": "00fb03", "push_to_start": {"Ride": "00fb02"}})

    def test_a_token_that_another_device_had_between(self):
        one, other = "\u00e1", "a\u0301"
        self.register(one, 10, push_to_start={"*": "00fb02"})
        self.register(other, 20, user="u", push_to_start={"*": "00fb02"})
        self.register(one, 30, push_to_start={"Ride": "00fb02"})
        self.assert_is({"device": one, "push_to_start": {"Ride": "00fb02"}}, {"device": other, "user": "u"})

    def test_twins_are_two_devices_and_two_tags(self):
        self.register("\u00e9", 10, user="\u00e9", tags={"\u00e9": "1", "e\u0301": "2"})
        self.register("e\u0301", 20, user="e\u0301", tags={"\u00e9": "3"})
        one = {"device": "\u00e9", "user": "\u00e9", "tags": {"\u00e9": "1", "e\u0301": "2"}}
        other = {"device": "e\u0301", "user": "e\u0301", "tags": {"\u00e9": "3"}}
        self.assert_is(one, other)
        self.known[APP] += [one]
        self.assertEqual(self.findings(), {"device that the registry does not know": 1})
        self.known[APP] += [other | {"user": "\u00e9"}]
        self.assertEqual(self.findings(), {"field of another time": 1})

    def test_strangers_and_known_devices(self):
        self.known[APP].append({"device": "stranger"})
        self.known[APP][0]["token"] = "00fb01"
        del self.known[APP][1]
        self.assertEqual(self.findings(), {
            "device that nobody registered": 1, "field of another time": 1, "device that the registry does not know": 1})
        self.assertEqual(self.findings([Window("redis-promote", BEGAN, BEGAN + 1)]), {"device that nobody registered": 1})

    def test_redis_may_be_emptied_and_rabbitmq_give_up(self):
        self.register("a", 10, user="u")
        lost = {"device that the registry does not know": 1}
        for kind in ("redis-flush", "redis-rewind", "redis-promote"):
            self.assertEqual(self.findings([Window(kind, BEGAN, BEGAN + 1)]), {})
            self.assertEqual(self.findings([Window(kind, BEGAN - 2, BEGAN - 1)]), lost)
        self.assertEqual(self.findings([Window("redis-evict", BEGAN, BEGAN + 1)]), lost)
        self.assertEqual(self.findings(given_up={self.registered[0].body}), {})
        self.assertEqual(self.findings(given_up={b"{}"}), lost)

    def test_rounds_are_mixed(self):
        maker = parts.Maker(5)
        made = [part for _ in range(40) for part in maker.round()]
        self.assertTrue(any(first.at > second.at for first, second in zip(made, made[1:]) if first.device == second.device))
        self.assertEqual({json.loads(part.body)["app"] for part in made}, set(AUDIENCE_APPS))


if __name__ == "__main__":
    unittest.main()
