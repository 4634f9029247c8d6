"""The auditor must notice: each test corrupts one record of a correct run. Run: python3 test_audit.py"""

import types
import unittest

from apns import Request
from audit import DeadLetter, Window, audit
from herald import ATTEMPTS_MAXIMUM, RETRY_DELAYS
from jobs import CAMPAIGN_KINDS, KINDS, JobMaker

BEGAN = 1_800_000_000


class AuditTests(unittest.TestCase):
    def setUp(self):
        maker = JobMaker(12, KINDS | CAMPAIGN_KINDS)
        self.jobs, self.outcomes, self.requests, self.dead = {}, [], [], []
        self.acceptances = {"production": {}, "sandbox": {}}
        # Rare kinds may be missing among the first.
        rare = [JobMaker(kind, [kind], first=10_000 * number) for number, kind in enumerate(KINDS, 1)]
        for job in [maker.make() for _ in range(1500)] + [one.make() for one in rare]:
            self.finish(job)
            for _, other in job.later:
                if other:
                    self.finish(other)
        self.plain = self.outcome("one")

    def finish(self, job):
        """Published, sent and reported correctly."""
        job.publishes, job.confirmed_at, job.published_at = 1 + sum(other is None for _, other in job.later), BEGAN, BEGAN
        job.timestamp = job.timestamp or BEGAN
        job.expiration = job.expiration and BEGAN + 30
        self.jobs[job.id] = job
        for token, apns_id, allowed, may_accept in job.targets():
            fate = min(allowed)
            attempts = ATTEMPTS_MAXIMUM if job.kind == "hopeless" else {"1503": 2, "2503": 3}.get((token or "")[:4], 1)
            if job.is_refused or job.kind in ("late", "old", "aging"):
                attempts = 0
            elif fate == "throttled":
                fate = "accepted"
            self.outcomes.append(types.SimpleNamespace(
                job_id=job.id, token=token, apns_id=apns_id or "none", outcome=fate, status=200, attempts=attempts,
                ambiguous=False, suppressed=False, completed_at=BEGAN * 1000 + 1000))
            at = BEGAN
            for number in range(attempts):
                is_last = number == attempts - 1
                status = {"accepted": 200, "unregistered": 410, "rejected": 400}.get(fate, 503) if is_last else 503
                self.ask(job, token, apns_id, at, status)
                at += RETRY_DELAYS[min(number, len(RETRY_DELAYS) - 1)] + 0.01
            if may_accept and attempts:
                self.acceptances[job.environment][apns_id] = 1
        if job.is_refused or job.kind == "hopeless":
            self.dead.append(DeadLetter(job.id, "invalid" if job.is_refused else "failed"))

    def ask(self, job, token, apns_id, at, status, ending="answered"):
        self.requests.append(Request(apns_id, token, job.app, job.environment, 1, at, status, None, ending))

    def outcome(self, kind):
        return next(outcome for outcome in self.outcomes if self.jobs[outcome.job_id].kind == kind)

    def move(self, apns_id, seconds, first=1):
        """Moves its requests from this number on to a later or earlier time."""
        own = [one for one in self.requests if one.apns_id == apns_id]
        for one in own[first:]:
            self.requests.remove(one)
            self.requests.append(one._replace(at=one.at + seconds))

    def verdict(self, windows=()):
        return audit(self.jobs, self.outcomes, self.acceptances, self.requests, self.dead, windows)

    def findings(self, windows=()):
        return {kind: len(texts) for kind, texts in self.verdict(windows).findings.items()}

    def test_a_run_that_was_well(self):
        kinds = {job.kind for job in self.jobs.values()}
        self.assertEqual(kinds, set(KINDS | CAMPAIGN_KINDS) | {"reborn-after"})
        self.assertEqual(self.findings(), {})

    def test_a_lost_outcome(self):
        self.outcomes.remove(self.plain)
        self.assertEqual(self.findings(), {"lost": 1})

    def test_a_lost_target_of_a_batch(self):
        self.outcomes.remove(self.outcome("batch"))
        self.assertEqual(self.findings(), {"lost": 1})

    def test_told_and_never_sent(self):
        del self.acceptances["production"][self.plain.apns_id]
        self.assertEqual(self.findings(), {"told as accepted, unknown to APNs": 1})

    def test_sent_and_told_otherwise(self):
        self.plain.outcome = "expired"
        self.assertEqual(
            self.findings(), {"outcome that must not be": 1, "accepted by APNs, told otherwise": 1})

    # Twice

    def send_twice(self, outcome, at=BEGAN + 20):
        job = self.jobs[outcome.job_id]
        self.acceptances[job.environment][outcome.apns_id] = 2
        self.ask(job, outcome.token, outcome.apns_id, at, 200)

    # A fault may have lost the first answer.
    KILL = Window("worker-kill", BEGAN + 1, BEGAN + 2)

    def test_sent_twice(self):
        self.send_twice(self.plain)
        # No fault excuses it: the outcome must be marked ambiguous.
        self.assertEqual(self.findings([self.KILL]), {"sent twice, unmarked": 1})
        self.plain.ambiguous = True
        self.assertEqual(self.findings([self.KILL]), {})

    def test_a_producer_that_repeats_is_no_excuse(self):
        doubled = self.outcome("doubled")
        self.assertEqual(self.jobs[doubled.job_id].publishes, 3)
        self.send_twice(doubled)
        self.assertEqual(self.findings(), {"sent twice, unmarked": 1, "sent again after its answer": 1})
        # The mark is enough only if a fault may have lost the first answer.
        doubled.ambiguous = True
        self.assertEqual(self.findings(), {"sent again after its answer": 1})
        self.assertEqual(self.findings([self.KILL]), {})

    def test_an_emptied_redis_between_the_two_is_the_only_excuse(self):
        self.send_twice(self.outcome("doubled"))
        self.assertEqual(self.findings([Window("redis-flush", BEGAN + 10, BEGAN + 10)]), {})
        # It was admitted before the first request, and may have waited for room since.
        self.assertEqual(self.findings([Window("redis-flush", BEGAN - 5, BEGAN - 5)]), {})
        self.assertEqual(
            self.findings([Window("redis-pause", BEGAN + 10, BEGAN + 11)]), {"sent twice, unmarked": 1})
        for window in [Window("redis-flush", BEGAN - 20, BEGAN - 19), Window("redis-flush", BEGAN + 21, BEGAN + 22),
                       Window("redis-script-flush", BEGAN, BEGAN + 30)]:
            self.assertEqual(
                self.findings([window]), {"sent twice, unmarked": 1, "sent again after its answer": 1})

    def test_what_a_repetition_came_with(self):
        self.send_twice(self.plain)
        self.plain.ambiguous = True
        windows = [Window("apns-cut", BEGAN, BEGAN + 1), self.KILL, Window("broker-kill", BEGAN + 21, BEGAN + 22)]
        counts = self.verdict(windows).counts
        self.assertEqual(counts["sent twice, ambiguous, after worker-kill"], 1)
        self.assertEqual(counts["sent_twice_ambiguous"], 1)

    def test_sent_again_after_its_answer(self):
        self.send_twice(self.plain)
        self.plain.ambiguous = True
        self.assertEqual(self.findings(), {"sent again after its answer": 1})
        self.assertEqual(
            self.findings([Window("apns-silent-stream", BEGAN, BEGAN + 30)]), {"sent again after its answer": 1})
        # Other requests of the connection were lost with this one.
        self.ask(self.jobs[self.plain.job_id], "other", "other", BEGAN, 0, "dropped")
        self.assertEqual(self.findings(), {})

    def test_a_silent_request_is_sent_again(self):
        hushed = self.outcome("hushed")
        self.ask(self.jobs[hushed.job_id], hushed.token, hushed.apns_id, BEGAN - 8, 0, "silent")
        self.assertEqual(self.findings(), {})
        self.send_twice(hushed)
        hushed.ambiguous = True
        self.assertEqual(self.findings(), {"sent again after its answer": 1})

    def test_two_fates(self):
        for kind in ("soon", "doubled-soon"):
            with self.subTest(kind):
                self.setUp()
                self.outcomes.append(types.SimpleNamespace(**vars(self.outcome(kind)) | {"outcome": "expired"}))
                self.assertEqual(self.findings(), {"two fates, unmarked": 1})
                self.outcome(kind).ambiguous = True
                self.assertEqual(self.findings(), {})

    def test_a_twin_whose_outcome_is_the_others(self):
        first, second = [one for one in self.outcomes if self.jobs[one.job_id].kind == "twin"][:2]
        self.assertNotEqual(first.job_id, second.job_id)
        second.job_id, second.apns_id = first.job_id, first.apns_id
        self.acceptances["production"][first.apns_id] = 2
        self.assertEqual(self.findings()["lost"], 1)
        self.assertEqual(self.findings()["sent twice, unmarked"], 1)

    # Unexpected pushes

    def test_what_nobody_asked_for(self):
        self.acceptances["production"]["00000000-0000-4000-8000-000000000000"] = 1
        stray = types.SimpleNamespace(**vars(self.plain) | {"job_id": "stranger"})
        self.outcomes.append(stray)
        self.outcomes.append(types.SimpleNamespace(**vars(self.plain) | {"token": "00fc"}))
        self.dead.append(DeadLetter("stranger", "failed"))
        self.assertEqual(
            self.findings(),
            {"accepted by APNs, asked for by nobody": 1, "outcome of a job that nobody published": 1,
             "outcome of a target that the job has not": 1, "dead letter of a job that nobody published": 1})

    def test_the_other_environment(self):
        apns_id = self.outcome("sandbox").apns_id
        self.acceptances["production"][apns_id] = self.acceptances["sandbox"].pop(apns_id)
        self.assertEqual(
            self.findings(), {"accepted in the other environment": 1, "told as accepted, unknown to APNs": 1})

    def test_another_apns_id(self):
        self.plain.apns_id = "other"
        self.assertEqual(self.findings(), {"outcome with another apns-id": 1})

    def test_unconfirmed(self):
        self.jobs[self.plain.job_id].confirmed_at = None
        self.assertEqual(len(self.findings()), 1)

    def test_a_doomed_push_that_was_accepted(self):
        self.acceptances["production"][self.outcome("gone").apns_id] = 1
        self.assertIn("accepted by APNs against the rules", self.findings())

    # Dead tokens, superseded ones

    def test_suppressed_for_a_410_that_was_older_than_the_token(self):
        after = self.outcome("reborn-after")
        after.suppressed = True
        # It was sent itself, so its outcome may have been published again.
        self.assertEqual(self.findings(), {})
        self.requests = [one for one in self.requests if one.apns_id != after.apns_id]
        self.assertEqual(self.findings(), {"suppressed as dead, though no 410 says so": 1})

    def test_suppressed_for_a_410_of_the_other_environment(self):
        gone = self.outcome("gone")
        gone.suppressed = True
        index = next(index for index, one in enumerate(self.requests) if one.apns_id == gone.apns_id)
        self.requests[index] = self.requests[index]._replace(environment="sandbox")
        self.assertEqual(self.findings(), {"suppressed as dead, though no 410 says so": 1})

    def test_superseded_by_nothing_newer(self):
        # Another one has its device and collapse id.
        hots = [one for one in self.outcomes if self.jobs[one.job_id].kind == "hot"]
        places = [(one.token, self.jobs[one.job_id].collapse_id) for one in hots]
        hot = next(one for one, place in zip(hots, places) if places.count(place) > 1)
        hot.outcome, hot.suppressed = "throttled", True
        self.acceptances["production"].pop(hot.apns_id)
        self.assertEqual(self.findings(), {})
        self.jobs[hot.job_id].timestamp += 1
        self.assertEqual(self.findings(), {"superseded by nothing newer": 1})

    # Age, retries

    def test_sent_after_its_age(self):
        aging = self.outcome("aging")
        job = self.jobs[aging.job_id]
        self.ask(job, aging.token, aging.apns_id, job.ends_at + 14, 503)
        self.assertEqual(self.findings(), {})
        self.ask(job, aging.token, aging.apns_id, job.ends_at + 16, 503)
        self.assertEqual(self.findings(), {"sent after its end": 1})
        # A request that was written in time may arrive late.
        self.assertEqual(self.findings([Window("apns-hole", job.ends_at + 5, job.ends_at + 15)]), {})

    def test_an_old_job_that_was_sent(self):
        old = self.outcome("old")
        old.outcome = "accepted"
        self.acceptances["production"][old.apns_id] = 1
        self.ask(self.jobs[old.job_id], old.token, old.apns_id, BEGAN + 4000, 200)
        self.assertEqual(self.findings(), {
            "outcome that must not be": 1, "accepted by APNs against the rules": 1, "sent after its end": 1})

    def test_a_retry_that_waited_too_little(self):
        again = self.outcome("again2")
        self.move(again.apns_id, RETRY_DELAYS[0] - RETRY_DELAYS[1], first=2)
        # No fault shortens a retry queue's delay.
        self.assertEqual(self.findings([self.KILL]), {"retry in a shorter tier than its own": 1})
        # An attempt that the outcome does not count, or that may have been repeated: the retry's number is unknown.
        again.attempts = 2
        self.assertEqual(self.findings(), {})

    def test_retries_that_waited_too_long(self):
        late = [one for one in self.outcomes if self.jobs[one.job_id].kind == "again"]
        count = self.verdict().counts["retries_timed"]
        self.assertGreater(count, len(late))
        # One in a hundred may be late because of the machine.
        self.move(late[0].apns_id, RETRY_DELAYS[1] - RETRY_DELAYS[0])
        self.assertEqual(self.findings(), {})
        for one in late[1:count // 4]:
            self.move(one.apns_id, RETRY_DELAYS[1] - RETRY_DELAYS[0])
        self.assertEqual(self.findings(), {"retries in a longer tier than theirs": 1})
        self.assertEqual(self.findings([Window("broker-pause", BEGAN, BEGAN + 100)]), {})

    # Beside a campaign

    def test_stood_still_beside_bad_tokens(self):
        self.outcome("beside").completed_at += 11_000
        campaign = Window("campaign-bad-tokens", BEGAN - 1, BEGAN + 40)
        self.assertEqual(self.findings([campaign]), {"stood still beside campaign-bad-tokens": 1})
        self.assertEqual(self.findings([campaign, Window("redis-pause", BEGAN + 5, BEGAN + 6)]), {})

    def test_stood_still_beside_a_silent_pool(self):
        self.outcome("beside").completed_at += 4_000
        silent = Window("sandbox-silent", BEGAN - 1, BEGAN + 40)
        self.assertEqual(self.findings([silent]), {})
        self.outcome("beside").completed_at += 2_000
        self.assertEqual(self.findings([silent]), {"stood still beside sandbox-silent": 1})

    # Dead letters

    def test_dead_letters(self):
        refused = next(letter for letter in self.dead if letter.reason == "invalid")
        self.dead.remove(refused)
        self.dead.append(DeadLetter(self.plain.job_id, "failed"))
        self.assertEqual(self.findings(), {"no dead letter": 1, "dead letter that must not be": 1})

    def test_a_dead_letter_without_an_outcome(self):
        self.dead.append(DeadLetter(self.plain.job_id, None, "delivery_limit"))
        self.assertEqual(self.findings(), {"dead letter without x-herald-reason": 1})
        self.outcomes.remove(self.plain)
        self.assertEqual(self.findings(), {"dead letter without x-herald-reason": 1, "lost": 1})
        self.dead[-1] = DeadLetter(self.plain.job_id, "failed")
        self.assertEqual(self.findings(), {"dead letter without an outcome": 1, "lost": 1})

    def test_given_up_too_early(self):
        hopeless = self.outcome("hopeless")
        self.jobs[hopeless.job_id].kind = "again"
        self.assertEqual(self.findings(), {})
        self.plain.outcome, self.plain.attempts = "failed", ATTEMPTS_MAXIMUM - 1
        self.assertEqual(
            self.findings(),
            {"outcome that must not be": 1, "accepted by APNs, told otherwise": 1, "no dead letter": 1})


if __name__ == "__main__":
    unittest.main()
