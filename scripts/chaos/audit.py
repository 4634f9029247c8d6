"""The auditor: compares three independent records. It shares no code with Herald.

Producer: jobs that the broker confirmed. APNs: how often each `apns-id` was accepted, and every request. Outcomes: what the
results exchange told. With them the dead letters that are left. The times of the faults say which of them a repetition came
with; they excuse nothing: what was sent twice must say `ambiguous`, whoever repeated it. One loss takes the knowledge away that
it was a repetition: a Redis that was emptied, or evicted keys, between the two.
"""

import collections

import audit_requests
from herald import ATTEMPTS_MAXIMUM

# Faults after which the broker redelivers jobs that may have been sent.
REPEATING = ("worker-kill", "worker-pause", "worker-partition", "broker-")
# Faults that erase Redis' memory of everything, and those that erase what it knows of jobs.
FORGETTING = ("redis-flush", "redis-rewind", "redis-promote")
EMPTYING = (*FORGETTING, "redis-evict")
# The longest wait of an admitted job for room before its request is written.
ADMITTED_SECONDS = 10
# Heartbeats notice a loss late, and lost messages come back later still.
LINGERING_SECONDS = 15
# The longest time of a job beside another tenant's trouble, without other faults: less than any pause, and than any request's timeout.
BESIDE_SECONDS = {"campaign-bad-tokens": 10, "sandbox-silent": 5}

Window = collections.namedtuple("Window", "kind start end")
# `reason` is Herald's, `death` the broker's; None where there is none.
DeadLetter = collections.namedtuple("DeadLetter", "job_id reason death", defaults=[None])


class Verdict:
    """Counts, and the first examples of each violation."""

    def __init__(self):
        self.counts = collections.Counter()
        self.findings = collections.defaultdict(list)

    def fail(self, kind, text):
        self.findings[kind].append(text)

    @property
    def holds(self):
        return not self.findings

    def lines(self):
        for kind, texts in sorted(self.findings.items()):
            yield f"FAILED {kind}: {len(texts)}"
            for text in texts[:5]:
                yield f"       {text}"

    def summary(self):
        names = ["jobs", "targets", "accepted", "told", "sent_twice", "told_twice", "ambiguous", "dead_letters",
                 "audiences", "audience_parts", "devices_judged", "activities", "registered", "forged", "beside_judged"]
        words = [f"{name.replace('_', ' ')} {self.counts[name]}" for name in names]
        words += [f"lost {len(self.findings['lost'])}" if "lost" in self.findings else "lost 0"]
        unexpected = sum(len(texts) for kind, texts in self.findings.items() if kind != "lost")
        return ", ".join(words + [f"unexpected {unexpected}"])


class Book:
    """The facts about all jobs: `requests` by `apns-id`, in the order of their times; empty if none were recorded."""

    def __init__(self, acceptances, requests, windows):
        self.acceptances = acceptances
        self.requests = collections.defaultdict(list)
        for request in sorted(requests or (), key=lambda one: one.at):
            self.requests[request.apns_id].append(request)
        self.windows = windows

    def accepted_at(self, apns_id):
        return [request.at for request in self.requests[apns_id] if request.status == 200]

    def was_emptied(self, times):
        """Whether Redis lost its memory between the first admission and the last request."""
        return bool(times) and any(
            window.kind.startswith(EMPTYING) and window.start <= max(times) and window.end >= min(times) - ADMITTED_SECONDS
            for window in self.windows)


def audit(jobs, outcomes, acceptances, requests, dead_letters, windows):
    """jobs: by id. acceptances: counts by environment and apns-id. requests: all of them; None if they were not recorded."""
    verdict = Verdict()
    book = Book(acceptances, requests, windows)
    told = collections.defaultdict(list)
    for outcome in outcomes:
        job = jobs.get(outcome.job_id)
        if job is None:
            verdict.fail("outcome of a job that nobody published", outcome.job_id)
        else:
            told[outcome.job_id, None if job.is_refused else outcome.token].append(outcome)
    letters_by_job = collections.defaultdict(list)
    for letter in dead_letters:
        letters_by_job[letter.job_id].append(letter)
        if letter.job_id not in jobs:
            verdict.fail("dead letter of a job that nobody published", letter.job_id)
    known = collections.defaultdict(set)
    newest = _newest(jobs)
    sent = []
    for job in jobs.values():
        verdict.counts["jobs"] += 1
        if job.confirmed_at is None:
            verdict.fail("published and never confirmed: the run ended too early", job.id)
        fates = set()
        for target in job.targets():
            verdict.counts["targets"] += 1
            known[job.environment].add(target[1])
            tales = told.pop((job.id, target[0]), [])
            fates |= {outcome.outcome for outcome in tales}
            _audit_target(verdict, book, job, target, tales)
            _audit_superseded(verdict, job, target[0], tales, newest)
            sent.append((job, target, tales))
        _audit_dead_letters(verdict, job, fates, letters_by_job.pop(job.id, []))
        _audit_beside(verdict, book, job, [one for _, _, tales in sent[-len(job.tokens):] for one in tales])
    for (job_id, token), strays in told.items():
        verdict.fail("outcome of a target that the job has not", f"{job_id} {token} {strays[0].outcome}")
    for environment, counts in acceptances.items():
        for apns_id in counts.keys() - known[environment]:
            is_other = any(apns_id in ids for ids in known.values())
            verdict.fail(
                "accepted in the other environment" if is_other else "accepted by APNs, asked for by nobody",
                f"{apns_id} {environment}")
    if requests is not None:
        audit_requests.audit(verdict, book, sent)
    verdict.counts["dead_letters"] = len(dead_letters)
    return verdict


def _audit_target(verdict, book, job, target, outcomes):
    token, apns_id, allowed, may_accept = target
    name = f"{job.kind} {job.id} {token or ''} apns-id {apns_id}"
    count = book.acceptances[job.environment].get(apns_id, 0)
    verdict.counts["accepted"] += min(count, 1)
    if not outcomes:
        verdict.fail("lost", f"{name}: no outcome; accepted by APNs {count} times; published {job.publishes} times")
        return
    verdict.counts["told"] += 1
    verdict.counts["told_twice"] += len(outcomes) - 1
    fates = {outcome.outcome for outcome in outcomes}
    for outcome in outcomes:
        if outcome.outcome == "failed" and outcome.attempts >= ATTEMPTS_MAXIMUM:
            # For any token: one outage after another may use up its attempts.
            verdict.counts["given up, after all attempts"] += 1
        elif outcome.outcome not in allowed:
            verdict.fail(
                "outcome that must not be",
                f"{name}: {outcome.outcome} {outcome.status} after {outcome.attempts} attempts; only {sorted(allowed)}")
        if apns_id and outcome.apns_id != apns_id:
            verdict.fail("outcome with another apns-id", f"{name}: {outcome.apns_id}")
    is_ambiguous = any(outcome.ambiguous for outcome in outcomes)
    verdict.counts["ambiguous"] += is_ambiguous
    if "accepted" in fates and count == 0:
        verdict.fail("told as accepted, unknown to APNs", name)
    if count and not may_accept:
        verdict.fail("accepted by APNs against the rules", name)
    accepted_at = book.accepted_at(apns_id)
    times = [outcome.completed_at / 1000 for outcome in outcomes] + accepted_at
    if is_ambiguous:
        reason = "ambiguous"
    else:
        # Two pushes: the time between their acceptances; two outcomes: the time between anything known of them.
        span = accepted_at if count > 1 and len(fates) == 1 else times
        reason = "Redis emptied between" if book.was_emptied(span) else None
    if count > 1:
        verdict.counts["sent_twice"] += 1
        verdict.counts["sent_twice_ambiguous"] += is_ambiguous
        verdict.counts[f"sent twice, {reason or 'not ambiguous'}, {_meanwhile(times, book.windows)}"] += 1
        if not reason:
            verdict.fail("sent twice, unmarked", f"{name}: {count} times, at {accepted_at}; published {job.publishes} times")
    if len(fates) > 1:
        verdict.counts[f"two fates, {reason}"] += 1
        if not reason:
            verdict.fail("two fates, unmarked", f"{name}: {sorted(fates)}; published {job.publishes} times")
    if count and "accepted" not in fates:
        verdict.counts[f"accepted and told otherwise, {reason}"] += 1
        if not reason:
            verdict.fail("accepted by APNs, told otherwise", f"{name}: {sorted(fates)}; published {job.publishes} times")


def _meanwhile(times, windows):
    """The fault that made the broker redeliver the job; else APNs itself broke a connection, or was silent."""
    first, last = min(times), max(times)
    kinds = {window.kind for window in windows
             if window.kind.startswith(REPEATING) and window.start <= last and window.end + LINGERING_SECONDS >= first}
    return "after " + " or ".join(sorted(kinds)) if kinds else "connections to APNs lost"


def _newest(jobs):
    """The two newest jobs of each device and collapse id, by enqueue time."""
    newest = collections.defaultdict(list)
    for job in jobs.values():
        if job.collapse_id and job.timestamp:
            for token in job.tokens:
                found = newest[job.environment, job.app, token, job.collapse_id]
                found.append((job.timestamp, job.id))
                found.sort(reverse=True)
                del found[2:]
    return newest


def _audit_superseded(verdict, job, token, outcomes, newest):
    """Only a newer job with the same collapse id for the same device may supersede it."""
    if not any(outcome.outcome == "throttled" and outcome.suppressed for outcome in outcomes):
        return
    verdict.counts["superseded"] += 1
    others = newest[job.environment, job.app, token, job.collapse_id]
    if not any(job_id != job.id and timestamp >= job.timestamp for timestamp, job_id in others):
        verdict.fail("superseded by nothing newer", f"{job.kind} {job.id} {job.collapse_id}")


def _audit_beside(verdict, book, job, outcomes):
    """Another tenant's bad tokens, or silent APNs, must not delay it. Checked only while no other fault was active."""
    if job.kind != "beside" or not outcomes:
        return
    ended_at = min(outcome.completed_at for outcome in outcomes) / 1000
    meanwhile = {window.kind for window in book.windows if window.start <= ended_at
                 and window.end + audit_requests.SETTLING_SECONDS >= job.published_at}
    if len(meanwhile) != 1 or not meanwhile <= BESIDE_SECONDS.keys():
        return
    kind = meanwhile.pop()
    verdict.counts["beside_judged"] += 1
    if ended_at - job.published_at > BESIDE_SECONDS[kind]:
        verdict.fail(f"stood still beside {kind}", f"{job.id}: {ended_at - job.published_at:.1f} s")


def _audit_dead_letters(verdict, job, fates, letters):
    wanted = "invalid" if job.is_refused else "failed" if "failed" in fates else None
    reasons = [letter.reason for letter in letters]
    if wanted and wanted not in reasons:
        verdict.fail("no dead letter", f"{job.kind} {job.id}: {reasons}")
    for letter in letters:
        if letter.reason is None:
            verdict.fail("dead letter without x-herald-reason", f"{job.kind} {job.id}: the broker's word is {letter.death}")
        elif not fates and not job.is_refused:
            verdict.fail("dead letter without an outcome", f"{job.kind} {job.id}: {letter.reason}")
        elif letter.reason != wanted:
            verdict.fail("dead letter that must not be", f"{job.kind} {job.id}: {letter.reason}")
    verdict.counts["dead_letters_twice"] += max(0, len(letters) - 1)
