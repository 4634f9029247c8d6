"""The auditor must notice: each test spoils one book of a run that was well. Run: python3 test_audit.py"""

import types
import unittest

from audit import DeadLetter, Window, audit
from jobs import JobMaker


class AuditTests(unittest.TestCase):
    def setUp(self):
        maker = JobMaker(7)
        self.jobs, self.outcomes, self.acceptances, self.dead, self.times = {}, [], {}, [], {}
        for _ in range(2000):
            job = maker.make()
            job.publishes, job.confirmed_at = 1, 100.0
            self.jobs[job.id] = job
            for token, apns_id, allowed, may_accept in job.targets():
                self.outcomes.append(types.SimpleNamespace(
                    job_id=job.id, token=token, apns_id=apns_id or "none", outcome=min(allowed), status=200,
                    attempts=12 if job.kind == "hopeless" else 1,
                    ambiguous=False, completed_at=100_000))
                if may_accept:
                    self.acceptances[apns_id] = 1
            if job.is_refused or job.kind == "hopeless":
                self.dead.append(DeadLetter(job.id, "invalid" if job.is_refused else "failed"))
        self.plain = next(outcome for outcome in self.outcomes if self.jobs[outcome.job_id].kind == "one")

    def test_what_a_repetition_came_with(self):
        self.send_twice()
        self.plain.ambiguous = True
        windows = [Window("apns-cut", 98.5, 99), Window("worker-kill", 98.5, 98.6), Window("broker-kill", 101, 102)]
        counts = audit(self.jobs, self.outcomes, self.acceptances, self.times, self.dead, windows).counts
        self.assertEqual(counts["sent twice, ambiguous, after worker-kill"], 1)
        self.assertEqual(counts["sent_twice_ambiguous"], 1)

    def findings(self, windows=()):
        verdict = audit(self.jobs, self.outcomes, self.acceptances, self.times, self.dead, windows)
        return {kind: len(texts) for kind, texts in verdict.findings.items()}

    def test_a_run_that_was_well(self):
        kinds = {job.kind for job in self.jobs.values()}
        self.assertTrue({"one", "named", "batch", "mixed", "wrong", "broken", "late", "soon", "hopeless"} <= kinds)
        self.assertEqual(self.findings(), {})

    def test_a_lost_outcome(self):
        self.outcomes.remove(self.plain)
        self.assertEqual(self.findings(), {"lost": 1})

    def test_a_lost_target_of_a_batch(self):
        self.outcomes.remove(next(one for one in self.outcomes if self.jobs[one.job_id].kind == "batch"))
        self.assertEqual(self.findings(), {"lost": 1})

    def test_told_and_never_sent(self):
        del self.acceptances[self.plain.apns_id]
        self.assertEqual(self.findings(), {"told as accepted, unknown to APNs": 1})

    def test_sent_and_told_otherwise(self):
        self.plain.outcome = "expired"
        self.assertEqual(
            self.findings(), {"outcome that must not be": 1, "accepted by APNs, told otherwise": 1})

    def send_twice(self):
        self.acceptances[self.plain.apns_id] = 2
        self.times[self.plain.apns_id] = [98.0, 99.9]

    def test_sent_twice(self):
        self.send_twice()
        self.assertEqual(self.findings(), {"sent twice without a reason": 1})
        # No fault is an excuse: the outcome must say that it may have happened.
        self.assertEqual(self.findings([Window("worker-kill", 98.5, 98.6)]), {"sent twice without a reason": 1})

    def test_reasons_to_be_sent_twice(self):
        self.send_twice()
        self.jobs[self.plain.job_id].publishes = 2
        self.assertEqual(self.findings(), {})
        self.jobs[self.plain.job_id].publishes = 1
        self.plain.ambiguous = True
        self.assertEqual(self.findings(), {})

    def test_two_fates(self):
        late = next(one for one in self.outcomes if self.jobs[one.job_id].kind == "soon")
        self.outcomes.append(types.SimpleNamespace(**vars(late) | {"outcome": "expired"}))
        self.assertEqual(self.findings(), {"two fates without a reason": 1})

    def test_what_nobody_asked_for(self):
        self.acceptances["00000000-0000-4000-8000-000000000000"] = 1
        stray = types.SimpleNamespace(**vars(self.plain) | {"job_id": "stranger"})
        self.outcomes.append(stray)
        self.outcomes.append(types.SimpleNamespace(**vars(self.plain) | {"token": "00fc"}))
        self.dead.append(DeadLetter("stranger", "failed"))
        self.assertEqual(
            self.findings(),
            {"accepted by APNs, asked for by nobody": 1, "outcome of a job that nobody published": 1,
             "outcome of a target that the job has not": 1, "dead letter of a job that nobody published": 1})

    def test_a_doomed_push_that_was_accepted(self):
        gone = next(one for one in self.outcomes if self.jobs[one.job_id].kind == "gone")
        self.acceptances[gone.apns_id] = 1
        self.assertIn("accepted by APNs against the rules", self.findings())

    def test_dead_letters(self):
        self.dead.pop()
        self.dead.append(DeadLetter(self.plain.job_id, "failed"))
        self.assertEqual(self.findings(), {"no dead letter": 1, "dead letter that must not be": 1})

    def test_given_up_too_early(self):
        hopeless = next(one for one in self.outcomes if self.jobs[one.job_id].kind == "hopeless")
        self.jobs[hopeless.job_id].kind = "again"
        self.assertEqual(self.findings(), {})
        self.plain.outcome, self.plain.attempts = "failed", 11
        self.assertEqual(
            self.findings(),
            {"outcome that must not be": 1, "accepted by APNs, told otherwise": 1, "no dead letter": 1})

    def test_another_apns_id(self):
        self.plain.apns_id = "other"
        self.assertEqual(self.findings(), {"outcome with another apns-id": 1})

    def test_unconfirmed(self):
        self.jobs[self.plain.job_id].confirmed_at = None
        self.assertEqual(len(self.findings()), 1)


if __name__ == "__main__":
    unittest.main()
