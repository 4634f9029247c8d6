"""Registrations in parts: each names some fields of a device at a time of its own, and they are published in any order."""

import json
import random
import time
import unicodedata

from herald import AUDIENCE_APPS

# Between two of a device's registrations.
_STEP_MILLISECONDS = 1000
_TEXT_TAGS = [unicodedata.normalize(form, "\u00e9t\u00e9") for form in ("NFC", "NFD")]
_NUMBER_TAG = "rides"
_TYPES = ["*", "Ride"]


class Part:
    def __init__(self, document):
        self.app = document["app"]
        self.device = document["device"]
        self.at = document["at"]
        self.document = document
        # With escapes in every second one.
        self.body = json.dumps(document, ensure_ascii=self.at // _STEP_MILLISECONDS % 2 == 0).encode()
        # Unix time; None: not yet.
        self.published_at = None


class Maker:
    """Each round has two new devices of one app, whose names are equal only canonically; they may have had one phone."""

    def __init__(self, seed):
        self.random = random.Random(f"parts {seed}")
        self.rounds = 0

    def round(self):
        """Both devices' registrations, in the order in which they are published."""
        self.rounds += 1
        app, name = self.random.choice(AUDIENCE_APPS), f"d\u00e9vice-{self.rounds}"
        base = int(time.time() * 1000) - 60_000
        shared = [self._token(), self._token()]
        parts = []
        for number, form in enumerate(("NFC", "NFD")):
            for _ in range(self.random.randint(3, 6)):
                number += 2
                fields = self._fields(shared)
                at = base + number * _STEP_MILLISECONDS
                # Of two with one time, one counts; a removal of all, and a phone's change of hands, have times of their own.
                others = [part.at for part in parts if part.device == unicodedata.normalize(form, name)
                          and not self._is_single(part.document, shared)]
                if others and not self._is_single(fields, shared) and self.random.random() < 0.3:
                    at = self.random.choice(others)
                parts.append(Part({"kind": "device", "at": at, "app": app, "device": unicodedata.normalize(form, name)} | fields))
        self.random.shuffle(parts)
        return parts

    @staticmethod
    def _is_single(fields, shared):
        return None in (fields.get("tags", 0), fields.get("push_to_start", 0)) or any(one in json.dumps(fields) for one in shared)

    def _token(self):
        return f"00fb{self.random.getrandbits(240):060x}"

    def _fields(self, shared):
        choose, chance = self.random.choice, self.random.random
        fields = {
            "user": choose([None, "us\u00e9r", "use\u0301r", "other"]), "locale": choose([None, "en-GB", "it", "de-AT"]),
            "os_version": choose([None, "17.1", "17.7", "18.2"]), "time_zone": choose([None, "Europe/Rome", "Asia/Tokyo"]),
            "token": choose([None, self._token(), self._token(), shared[0]]),
            "push_to_start": None if chance() < 0.15 else {
                choose(_TYPES): choose([None, self._token(), shared[1]]) for _ in range(2)},
            "tags": None if chance() < 0.15 else {
                choose(_TEXT_TAGS): choose([None, "a", "b", "\u00e9", "e\u0301"]),
                _NUMBER_TAG: choose([None, 0, 1, 5, {"increment": 1}, {"increment": 2}, {"increment": 4}])},
        }
        return {name: value for name, value in fields.items() if chance() < 0.5}
