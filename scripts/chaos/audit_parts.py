"""The auditor's fourth part: in the end the registry knows of each device what its registrations say by their times, in whichever order they
came, and each device, user and tag by its bytes."""

import collections

import audiences
from audit import FORGETTING
from herald import AUDIENCE_APPS

_TEXTS = ("user", "locale", "os_version", "time_zone", "token")


def audit(verdict, registered, registered_at, known, windows, given_up):
    """registered: the parts. registered_at: Unix time before the newest registrations of all other devices. known: by app, the registrations
    that make the known devices. given_up: bodies of registrations that RabbitMQ handed out too often (`redelivered` in `push.dead`)."""
    found = {app: {one["device"]: one for one in known[app]} for app in AUDIENCE_APPS}
    wanted = {app: {} for app in AUDIENCE_APPS}
    excused = set()
    for rounds in _rounds(registered).values():
        app = rounds[0].app
        for device, fields in _result(rounds).items():
            wanted[app][device] = fields
        if _was_emptied(windows, min(part.published_at for part in rounds)) or any(part.body in given_up for part in rounds):
            excused |= {(app, part.device) for part in rounds}
    for app in AUDIENCE_APPS:
        for number in range(audiences.DEVICES):
            name = audiences.device(number)
            wanted[app][name] = audiences.registration(app, number)
            if registered_at is None or _was_emptied(windows, registered_at):
                excused.add((app, name))
        for name in found[app].keys() - wanted[app].keys():
            verdict.fail("device that nobody registered", f"{app} {name!a}")
        for name, fields in wanted[app].items():
            if (app, name) in excused:
                continue
            verdict.counts["registered"] += 1
            _compare(verdict, f"{app} {name!a}", fields, found[app].get(name))


def _compare(verdict, name, fields, one):
    if one is None:
        verdict.fail("device that the registry does not know", name)
        return
    for field in (*_TEXTS, "push_to_start", "tags"):
        wanted, known = fields.get(field) or None, one.get(field) or None
        if wanted != known:
            verdict.fail("field of another time", f"{name} {field}: {known!a}, not {wanted!a}")


def _was_emptied(windows, since):
    return any(window.kind.startswith(FORGETTING) and window.end >= since for window in windows)


def _rounds(registered):
    """The parts of devices that may have had each other's tokens."""
    rounds = collections.defaultdict(list)
    for part in registered:
        rounds[part.app, audiences.composed(part.device)].append(part)
    return rounds


def _result(parts):
    """By device, its fields."""
    namings = collections.defaultdict(list)
    for part in parts:
        for token in _tokens(part.document):
            namings[token].append((part.at, part.device))

    def has(device, at, token):
        """No other device named it later: that took it away, also if this one names it anew elsewhere."""
        return token and not any(one > (at, device) for one in namings[token] if one[1] != device)

    devices = {}
    for device in {part.device for part in parts}:
        # The same bytes count once.
        own = list({part.body: part.document for part in parts if part.device == device}.values())
        fields = {field: _last([(one["at"], one[field]) for one in own if field in one])[1] for field in _TEXTS}
        at, token = _last([(one["at"], one["token"]) for one in own if "token" in one])
        fields["token"] = token if has(device, at, token) else None
        starts = _named(own, "push_to_start")
        fields["push_to_start"] = {name: token for name, (at, token) in starts.items() if has(device, at, token)}
        fields["tags"] = {name: value for name, (_, value) in _named(own, "tags").items()}
        devices[device] = fields
    return devices


def _tokens(document):
    return [token for token in (document.get("token"), *(document.get("push_to_start") or {}).values()) if token]


def _last(changes):
    """The latest time and value; of one time a removal, else the larger."""
    return max(changes, key=lambda one: (one[0], one[1] is None, str(one[1]).encode()), default=(0, None))


def _named(own, field):
    """The members of an object, each by its own time, with that time; increments count from the last value on."""
    cleared = max((one["at"] for one in own if field in one and one[field] is None), default=0)
    changes = collections.defaultdict(list)
    for one in own:
        for name, value in (one.get(field) or {}).items():
            if one["at"] >= cleared:
                changes[name].append((one["at"], value))
    members = {}
    for name, own_changes in changes.items():
        sets = [one for one in own_changes if not isinstance(one[1], dict)]
        since, value = _last([(cleared, None), *sets])
        addends = [value["increment"] for at, value in own_changes if isinstance(value, dict) and at >= since]
        if addends and not isinstance(value, str):
            value = (value or 0) + sum(addends)
        if value is not None:
            members[name] = since, value
    return members
