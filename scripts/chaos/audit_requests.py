"""The auditor's second part: what each single request to APNs says of age, retries, repetitions and dead tokens."""

from herald import RETRY_DELAYS

# Between the look at a job's end and its request: it may wait so long for room, and be sent once more.
LATE_SECONDS = 15
# A retry's delay begins after the request that it follows was answered; clocks are rounded to milliseconds.
ROUNDING_SECONDS = 0.02
# After a fault things are as before so much later.
SETTLING_SECONDS = 5
# A machine that is busy is late now and then; a tier that is chosen by chance is it for one retry in four.
LATE_RETRIES_SHARE = 0.1
LATE_RETRIES_MINIMUM = 20
# After a broken connection a copy may wait so long for the answer of another one that is still on its way.
CLAIM_SECONDS = 15
# Requests that arrive much later than they were written, or decided upon.
DELAYING = ("apns-pause", "apns-hole", "worker-pause", "queue-delete-retry")
# Faults that keep no answer of another request away.
LETTING = ("apns-silent-stream", "apns-slow", "campaign-bad-tokens", "redis-script-flush", "workers-reload")
_FAILED = (500, 503)


def audit(verdict, book, sent):
    """sent: (job, target, outcomes) of each that may have been sent."""
    retries = []
    # An answer that was handed to a connection which broke may have got lost.
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
    """Whether a fault (of these kinds, that begin so) was on between the two times, or had just ended."""
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
    """What APNs answered 200 is not sent again, unless something may have kept the answer away, or from being remembered."""
    for first, second in zip(requests, requests[1:]):
        if first.status != 200 or first.ending != "answered":
            continue
        # Of several copies one may wait long for another's answer before it goes on, marked.
        settling = SETTLING_SECONDS if job.publishes == 1 else CLAIM_SECONDS
        if (first.environment, first.connection) in broken or _is_disturbed(
                book, first.at, second.at, but=LETTING, settling=settling):
            continue
        verdict.fail(
            "sent again after its answer", f"{name}: {[(one.at, one.status, one.ending) for one in requests]}")
        return


def _audit_tiers(verdict, book, job, name, requests, outcomes):
    """The n-th retry waits in the n-th tier: never less; yields (waited for a longer one, text) where nothing else delays it.

    Only of those of which every attempt is known, by both books."""
    if len(outcomes) != 1 or outcomes[0].ambiguous or job.publishes > 1 or outcomes[0].attempts != len(requests):
        return
    for number, (first, second) in enumerate(zip(requests, requests[1:])):
        tier = RETRY_DELAYS[min(number, len(RETRY_DELAYS) - 1)]
        if first.status not in _FAILED or first.ending != "answered" or first.reason == "Shutdown":
            continue
        # One that ends sooner waits in a shorter one.
        if job.ends_at and first.at + RETRY_DELAYS[-1] + 1 >= job.ends_at:
            continue
        gap = second.at - first.at
        text = f"{name}: retry {number + 1} after {gap:.2f} s, its tier is {tier} s"
        if gap < tier - ROUNDING_SECONDS:
            verdict.fail("retry in a shorter tier than its own", text)
        longer = [delay for delay in RETRY_DELAYS if delay > tier]
        if longer and not _is_disturbed(book, first.at, second.at):
            yield gap >= longer[0], text


def _dead_tokens(book, sent):
    """(environment, token) of those that a 410 said of, which was not older than the token's registration."""
    registered = {apns_id for job, (_, apns_id, _, _), _ in sent if job.kind in ("reborn", "reborn-long-ago")}
    return {(one.environment, one.token) for apns_id, requests in book.requests.items() for one in requests
            if one.status == 410 and apns_id not in registered}
