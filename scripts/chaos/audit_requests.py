"""The auditor's second part: checks age, retries, repetitions and dead tokens for each single request to APNs."""

from herald import RETRY_DELAYS

# From the check of a job's expiration to its request: it may wait this long for room, and be sent once more.
LATE_SECONDS = 15
# A retry's delay starts after the answer to the request before it. The simulator dates all requests of a turn of its loop at the turn's
# beginning: on a busy machine they may have come this much later.
TURN_SECONDS = 0.2
# The time after a fault until everything is as before.
SETTLING_SECONDS = 5
# A busy machine is late now and then; a wrongly chosen queue is wrong for one retry in four.
LATE_RETRIES_SHARE = 0.1
LATE_RETRIES_MINIMUM = 20
# After a broken connection, a copy may wait this long for the answer of another copy in flight.
CLAIM_SECONDS = 15
# Faults that make requests arrive much later than they were written or decided.
DELAYING = ("apns-pause", "apns-hole", "worker-pause", "queue-delete-retry")
# Faults that lose no answer of another request.
LETTING = ("apns-silent-stream", "apns-slow", "campaign-bad-tokens", "redis-script-flush", "workers-reload")
_FAILED = (500, 503)


def audit(verdict, book, sent):
    """sent: (job, target, outcomes) of each that may have been sent."""
    retries = []
    # An answer on a connection that broke may be lost.
    broken = {(one.environment, one.connection) for requests in book.requests.values() for one in requests
              if one.ending == "dropped"}
    dead = _dead_tokens(book, sent)
    for job, (token, apns_id, _, _), outcomes in sent:
        requests = book.requests.get(apns_id, [])
        name = f"{job.kind} {job.id} apns-id {apns_id}"
        _audit_end(verdict, book, job, name, requests)
        _audit_answered(verdict, book, job, name, requests, broken)
        retries += _audit_tiers(verdict, book, job, name, requests, outcomes)
        for outcome in outcomes:
            if outcome.outcome == "unregistered" and outcome.suppressed:
                verdict.counts["suppressed"] += 1
                if (job.environment, token) not in dead:
                    verdict.fail("suppressed as dead, though no 410 says so", name)
    late = [text for is_late, text in retries if is_late]
    verdict.counts["retries_timed"] = len(retries)
    if len(retries) >= LATE_RETRIES_MINIMUM and len(late) > len(retries) * LATE_RETRIES_SHARE:
        verdict.fail("retries in a longer tier than theirs", f"{len(late)} of {len(retries)}, such as {late[0]}")


def _is_disturbed(book, start, end, kinds=None, but=(), settling=SETTLING_SECONDS):
    """Whether a fault (whose name starts with one of these) was active between the two times, or had just ended."""
    return any(window.start <= end and window.end + settling >= start and window.kind not in but
               and (kinds is None or window.kind.startswith(kinds)) for window in book.windows)


def _audit_end(verdict, book, job, name, requests):
    """Past its expiration, or its age from its `timestamp`, nothing is sent."""
    for request in requests:
        if job.ends_at and request.at > job.ends_at + LATE_SECONDS and not _is_disturbed(
                book, job.ends_at, request.at, DELAYING):
            verdict.fail("sent after its end", f"{name}: {request.at - job.ends_at:.1f} s")
            return


def _audit_answered(verdict, book, job, name, requests, broken):
    """A push that APNs accepted is not sent again, unless a fault may have lost the answer or kept it out of Redis."""
    for first, second in zip(requests, requests[1:]):
        if first.status != 200 or first.ending != "answered":
            continue
        # One of several copies may wait long for another's answer before it goes on, marked.
        settling = SETTLING_SECONDS if job.publishes == 1 else CLAIM_SECONDS
        if (first.environment, first.connection) in broken or _is_disturbed(
                book, first.at, second.at, but=LETTING, settling=settling):
            continue
        verdict.fail(
            "sent again after its answer", f"{name}: {[(one.at, one.status, one.ending) for one in requests]}")
        return


def _audit_tiers(verdict, book, job, name, requests, outcomes):
    """The n-th retry waits in the n-th queue, never less. Yields (waited in a longer one, text) if nothing else delayed it.

    Only for jobs whose attempts are all in both records."""
    if len(outcomes) != 1 or outcomes[0].ambiguous or job.publishes > 1 or outcomes[0].attempts != len(requests):
        return
    for number, (first, second) in enumerate(zip(requests, requests[1:])):
        tier = RETRY_DELAYS[min(number, len(RETRY_DELAYS) - 1)]
        if first.status not in _FAILED or first.ending != "answered" or first.reason == "Shutdown":
            continue
        # A job that expires sooner waits in a shorter one.
        if job.ends_at and first.at + RETRY_DELAYS[-1] + 1 >= job.ends_at:
            continue
        gap = second.at - first.at
        text = f"{name}: retry {number + 1} after {gap:.2f} s, its tier is {tier} s"
        if gap < tier - TURN_SECONDS:
            verdict.fail("retry in a shorter tier than its own", text)
        longer = [delay for delay in RETRY_DELAYS if delay > tier]
        if longer and not _is_disturbed(book, first.at, second.at):
            yield gap >= longer[0], text


def _dead_tokens(book, sent):
    """(environment, token) of tokens with a 410 that was not older than the token's registration."""
    registered = {apns_id for job, (_, apns_id, _, _), _ in sent if job.kind in ("reborn", "reborn-long-ago")}
    return {(one.environment, one.token) for apns_id, requests in book.requests.items() for one in requests
            if one.status == 410 and apns_id not in registered}
