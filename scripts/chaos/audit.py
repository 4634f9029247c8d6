"""The auditor: lays three books side by side that know nothing of each other. It shares no code with Herald.

Producer: jobs that the broker confirmed. APNs: how often each `apns-id` was accepted, and when. Outcomes: what the results
exchange told. With them the dead letters that are left. The times of the faults say which of them a repetition came with;
they excuse nothing: what was sent twice must say `ambiguous`, or the producer itself published it twice.
"""

import collections

from herald import ATTEMPTS_MAXIMUM

# What makes the broker give a job again that may have been sent already.
REPEATING = ("worker-kill", "worker-pause", "worker-partition", "broker-")
# Heartbeats notice a loss later than it began, and what was lost comes back later still.
LINGERING_SECONDS = 15

Window = collections.namedtuple("Window", "kind start end")
DeadLetter = collections.namedtuple("DeadLetter", "job_id reason")


class Verdict:
    """Counts, and of what must not be the first examples."""

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
        names = ["jobs", "targets", "accepted", "told", "sent_twice", "told_twice", "ambiguous", "dead_letters"]
        words = [f"{name.replace('_', ' ')} {self.counts[name]}" for name in names]
        words += [f"lost {len(self.findings['lost'])}" if "lost" in self.findings else "lost 0"]
        unexpected = sum(len(texts) for kind, texts in self.findings.items() if kind != "lost")
        return ", ".join(words + [f"unexpected {unexpected}"])


def audit(jobs, outcomes, acceptances, acceptance_times, dead_letters, windows):
    """jobs: by id. acceptances: counts by apns-id. acceptance_times: Unix seconds by apns-id, of those accepted twice."""
    verdict = Verdict()
    told = collections.defaultdict(list)
    for outcome in outcomes:
        job = jobs.get(outcome.job_id)
        if job is None:
            verdict.fail("outcome of a job that nobody published", outcome.job_id)
        else:
            told[outcome.job_id, None if job.is_refused else outcome.token].append(outcome)
    buried = collections.defaultdict(list)
    for letter in dead_letters:
        buried[letter.job_id].append(letter.reason)
        if letter.job_id not in jobs:
            verdict.fail("dead letter of a job that nobody published", letter.job_id)
    known = set()
    for job in jobs.values():
        verdict.counts["jobs"] += 1
        if job.confirmed_at is None:
            verdict.fail("published and never confirmed: the run ended too early", job.id)
        has_failed = False
        for target in job.targets():
            verdict.counts["targets"] += 1
            known.add(target[1])
            tales = told.pop((job.id, target[0]), [])
            has_failed = has_failed or any(outcome.outcome == "failed" for outcome in tales)
            _audit_target(verdict, job, target, tales, acceptances, acceptance_times, windows)
        _audit_dead_letters(verdict, job, has_failed, buried.pop(job.id, []))
    for (job_id, token), strays in told.items():
        verdict.fail("outcome of a target that the job has not", f"{job_id} {token} {strays[0].outcome}")
    for apns_id in acceptances.keys() - known:
        verdict.fail("accepted by APNs, asked for by nobody", apns_id)
    verdict.counts["dead_letters"] = len(dead_letters)
    return verdict


def _audit_target(verdict, job, target, outcomes, acceptances, acceptance_times, windows):
    token, apns_id, allowed, may_accept = target
    name = f"{job.kind} {job.id} {token or ''} apns-id {apns_id}"
    count = acceptances.get(apns_id, 0)
    verdict.counts["accepted"] += min(count, 1)
    if not outcomes:
        verdict.fail("lost", f"{name}: no outcome; accepted by APNs {count} times; published {job.publishes} times")
        return
    verdict.counts["told"] += 1
    verdict.counts["told_twice"] += len(outcomes) - 1
    fates = {outcome.outcome for outcome in outcomes}
    for outcome in outcomes:
        if outcome.outcome == "failed" and outcome.attempts >= ATTEMPTS_MAXIMUM:
            # Whatever it is: one outage after the other may use up its attempts.
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
    reason = "ambiguous" if is_ambiguous else "published twice" if job.publishes > 1 else None
    if count > 1:
        verdict.counts["sent_twice"] += 1
        verdict.counts["sent_twice_ambiguous"] += is_ambiguous
        times = [outcome.completed_at / 1000 for outcome in outcomes] + acceptance_times.get(apns_id, [])
        verdict.counts[f"sent twice, {reason or 'not ambiguous'}, {_meanwhile(times, windows)}"] += 1
        if not reason:
            verdict.fail("sent twice without a reason", f"{name}: {count} times, at {acceptance_times.get(apns_id)}")
    if len(fates) > 1:
        verdict.counts[f"two fates, {reason}"] += 1
        if not reason:
            verdict.fail("two fates without a reason", f"{name}: {sorted(fates)}")
    if count and "accepted" not in fates:
        verdict.counts[f"accepted and told otherwise, {reason}"] += 1
        if not reason:
            verdict.fail("accepted by APNs, told otherwise", f"{name}: {sorted(fates)}")


def _meanwhile(times, windows):
    """The fault that the broker gave the job again for; else APNs itself broke a connection, or was silent."""
    first, last = min(times), max(times)
    kinds = {window.kind for window in windows
             if window.kind.startswith(REPEATING) and window.start <= last and window.end + LINGERING_SECONDS >= first}
    return "after " + " or ".join(sorted(kinds)) if kinds else "connections to APNs lost"


def _audit_dead_letters(verdict, job, has_failed, reasons):
    wanted = "invalid" if job.is_refused else "failed" if has_failed else None
    if wanted and wanted not in reasons:
        verdict.fail("no dead letter", f"{job.kind} {job.id}: {reasons}")
    for reason in reasons:
        if reason != wanted:
            verdict.fail("dead letter that must not be", f"{job.kind} {job.id}: {reason}")
    verdict.counts["dead_letters_twice"] += max(0, len(reasons) - 1)
