"""The auditor's third part: jobs for audiences, and Live Activities. No device is missed, none gets anything twice unless it says
`ambiguous`, no push reaches another device than the one that it is told of, none of an app's another app's, and in the end every device
shows its activity's newest state. Names count by their bytes."""

import collections

import audiences
from audit import EMPTYING, FORGETTING

# After Redis was emptied: until all devices are registered again, and the segment is stored.
KNOWN_SECONDS = 30
# A job of an activity that is not known waits for its start, half a minute less what its last wait may lack.
EARLY_SECONDS = 25
# What a push of the newest state may end in where the device shows it: another push of it came first.
_FINE = ("accepted", "throttled")


def audit(verdict, jobs, outcomes, acceptances, activities, windows, requests):
    """jobs: by id. outcomes: of the audiences' apps. acceptances: counts by apns-id. activities: what the devices show. requests: those of
    the apps to APNs."""
    reached = collections.defaultdict(set)
    for request in requests:
        if request.status == 200:
            reached[request.apns_id].add(request.token)
    _audit_apps(verdict, requests, activities)
    parents, parts = collections.defaultdict(list), collections.defaultdict(list)
    for outcome in outcomes:
        (parts if outcome.parent_id else parents)[outcome.parent_id or outcome.job_id].append(outcome)
    for job_id in (parents.keys() | parts.keys()) - jobs.keys():
        verdict.fail("outcome of an audience that nobody asked for", job_id)
    for job in jobs.values():
        verdict.counts["audiences"] += 1
        mates = [mate for mate in jobs.values() if job.activity is not None and _key(mate) == _key(job)]
        _audit_job(verdict, job, parents[job.id], parts[job.id], acceptances, windows, _Life(mates, parents))
        _audit_devices(verdict, job, parts[job.id], reached)
    _audit_activities(verdict, jobs, parents, parts, activities, windows)


def _key(job):
    return job.app, job.activity


def _audit_apps(verdict, requests, activities):
    """Nothing excuses a request of one app to another app's device, answered or not."""
    owners = audiences.OWNERS | {one["update_token"]: one["app"] for one in activities if one["update_token"]}
    for request in requests:
        owner = owners.get(request.token)
        if owner is None:
            continue
        verdict.counts["tenants_judged"] += 1
        if request.topic != owner and not request.topic.startswith(f"{owner}."):
            verdict.fail("sent to another app's device", f"{request.apns_id} of {request.topic} to {owner}'s {request.token}")


class _Life:
    """What the jobs of an activity allow each other. Unix times."""

    def __init__(self, jobs, parents):
        self.jobs = jobs
        started = [outcome.completed_at / 1000 for job in jobs if job.kind == "start" for outcome in parents[job.id]
                   if outcome.outcome == "completed"]
        # From then on it is known.
        self.started_at = min(started, default=float("inf"))
        # From then on it may be over.
        self.ended_at = min((job.published_at for job in jobs if job.kind == "end"), default=float("inf"))

    def allows(self, job, outcome, ended_at):
        """Whether the job may end in this outcome, at this time."""
        if outcome.outcome == "throttled":
            # The producer's numbers decide.
            return job.kind == "update" and any(
                mate.number > job.number and mate.kind in ("update", "end") and mate.published_at <= ended_at for mate in self.jobs)
        if outcome.outcome == "invalid":
            return self.is_early(job, outcome) or (
                "has ended" in (outcome.detail or "") and job.kind == "start" and self.ended_at <= ended_at)
        return outcome.outcome == "completed"

    def is_early(self, job, outcome):
        """It came so long before its activity was known that it is refused, whatever its number is."""
        return (outcome.outcome == "invalid" and "is not known" in (outcome.detail or "") and job.kind in ("update", "end")
                and self.started_at >= job.published_at + EARLY_SECONDS)


def _was_emptied(windows, since, until, kinds=FORGETTING):
    return any(window.kind.startswith(kinds) and window.start <= until and window.end + KNOWN_SECONDS >= since
               for window in windows)


def _audit_job(verdict, job, outcomes, parts, acceptances, windows, life):
    name = f"{job.kind} {job.id} of {job.app}"
    if not outcomes:
        # Its progress is in Redis alone.
        if not _was_emptied(windows, job.published_at, float("inf")):
            verdict.fail("audience lost", f"{name}: no outcome")
        return
    ended_at = max(outcome.completed_at for outcome in outcomes + parts) / 1000
    is_forgotten = _was_emptied(windows, job.published_at, ended_at)
    fates = {outcome.outcome for outcome in outcomes}
    for outcome in outcomes:
        if not life.allows(job, outcome, ended_at) and not is_forgotten:
            verdict.fail("audience's outcome that must not be", f"{name}: {outcome.outcome}: {outcome.detail}")
    age = min(outcome.completed_at for outcome in outcomes) / 1000 - job.published_at
    if any(life.is_early(job, outcome) for outcome in outcomes) and age < EARLY_SECONDS and not _was_emptied(
            windows, job.published_at, ended_at, (*FORGETTING, "worker-clock")):
        verdict.fail("refused before its start could come", f"{name}: after {age:.1f} s")
    for told in outcomes + parts:
        if told.app != job.app:
            verdict.fail("outcome of another app", f"{name}: {told.app}")
    by_device = collections.defaultdict(list)
    for part in parts:
        by_device[part.device or part.channel].append(part)
    for target, tales in by_device.items():
        _audit_target(
            verdict, f"{name} {target!a}", job, tales, acceptances, _was_emptied(windows, job.published_at, ended_at, EMPTYING))
    if job.devices is None or "completed" not in fates:
        return
    for target in by_device.keys() - job.devices:
        if any(tale.device for tale in by_device[target]):
            verdict.fail("sent outside the audience", f"{name} {target!a}")
    # A device that was not started before the end is not started.
    if is_forgotten or job.kind != "alert" and life.ended_at <= ended_at:
        return
    summaries = {tuple(sorted(outcome.summary.items())) for outcome in outcomes}
    if len(summaries) > 1:
        verdict.fail("two summaries of an audience", f"{name}: {sorted(summaries)}")
    if outcomes[0].summary["devices"] != len(job.devices):
        verdict.fail("audience of another size", f"{name}: {outcomes[0].summary}, not {len(job.devices)}")
    for target in sorted(job.devices - by_device.keys()):
        verdict.fail("device missed", f"{name} {target!a}")


def _audit_devices(verdict, job, parts, reached):
    """Nothing excuses a push to another device: whatever Redis forgot, it was not asked for."""
    if job.kind not in ("alert", "start"):
        return
    for part in parts:
        if part.device is None:
            continue
        verdict.counts["devices_judged"] += part.apns_id in reached
        strangers = reached.get(part.apns_id, set()) - audiences.tokens_of(job.app, part.device)
        if strangers:
            verdict.fail("sent to another device", f"{job.kind} {job.id} of {job.app} {part.device!a}: {sorted(strangers)}")


def _audit_target(verdict, name, job, tales, acceptances, is_forgotten):
    verdict.counts["audience_parts"] += 1
    is_marked = is_forgotten or any(tale.ambiguous for tale in tales)
    counts = {tale.apns_id: acceptances.get(tale.apns_id, 0) for tale in tales}
    # A late token's push has an id of its own.
    count = sum(counts.values()) if job.kind == "alert" else max(counts.values())
    if count > 1:
        verdict.counts["audience_parts_twice"] += 1
        if not is_marked:
            verdict.fail("device sent twice, unmarked", f"{name}: {counts}")
    if any(tale.outcome == "accepted" for tale in tales) and not count:
        verdict.fail("told as accepted, unknown to APNs", f"{name}: {counts}")


def _was_early(job, jobs, parents):
    """All its copies came too early: it is none of its activity's states."""
    life = _Life([mate for mate in jobs.values() if _key(mate) == _key(job)], parents)
    return bool(parents[job.id]) and all(life.is_early(job, outcome) for outcome in parents[job.id])


def _audit_activities(verdict, jobs, parents, parts, activities, windows):
    starts, newest, states = {}, {}, collections.defaultdict(set)
    for job in jobs.values():
        if job.activity is not None:
            states[_key(job)].add(job.number)
        if job.kind == "start":
            starts[_key(job)] = job
        elif job.kind in ("update", "end") and not _was_early(job, jobs, parents):
            newest[_key(job)] = max(newest.get(_key(job), job), job, key=lambda one: (one.kind == "end", one.number))
    shown = collections.defaultdict(list)
    for activity in activities:
        shown[activity["app"], activity["id"], activity["device"]].append(activity)
    until = max((outcome.completed_at for tales in (*parents.values(), *parts.values()) for outcome in tales), default=0) / 1000
    for (app, activity, device), cards in shown.items():
        key, name = (app, activity), f"{app} {activity!a} {device!a}"
        start = starts.get(key)
        if start is None:
            verdict.fail("activity that nobody started", name)
            continue
        for card in cards:
            number = card["content_state"]["n"]
            if number not in states[key]:
                verdict.fail("another activity's state is shown", f"{name} shows {number}; channel {card['channel']}")
        if _was_emptied(windows, start.published_at, until):
            continue
        verdict.counts["activities"] += 1
        tales = [tale for tale in parts[start.id] if tale.device == device]
        is_marked = any(tale.ambiguous for tale in tales) or _was_emptied(windows, start.published_at, until, EMPTYING)
        if len(cards) > 1 and not is_marked:
            verdict.fail("started twice, unmarked", name)
        job = newest.get(key, start)
        # Updates come in one way.
        told = [tale for tale in parts[job.id] if (tale.channel if cards[-1]["channel"] else tale.device == device)]
        if job is not start and any(tale.outcome not in _FINE for tale in told):
            continue
        number = cards[-1]["content_state"]["n"]
        if number != job.number:
            verdict.fail(
                "an older state is shown", f"{name} shows {number}, the newest is {job.number} ({job.id}); "
                f"channel {cards[-1]['channel']}")
