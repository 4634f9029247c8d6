"""The audit of audiences must notice: each test corrupts one record of a correct run. Run: python3 test_audit_audiences.py"""

import types
import unittest

import audiences
from audit import Verdict, Window
from audit_audiences import audit

BEGAN = 1_800_000_000


class AuditAudiencesTests(unittest.TestCase):
    def setUp(self):
        self.jobs, self.outcomes, self.acceptances, self.shown, self.reached = {}, [], {}, [], {}
        maker = audiences.Maker(7)
        self.alerts = [maker.alert() for _ in range(6)]
        for job in self.alerts:
            self.finish(job, job.devices)
        self.lives = []
        for _ in range(6):
            # In the order of their numbers, whatever order they were published in.
            life = sorted((job for _, job in maker.activity()), key=lambda one: one.number)
            self.lives.append(life)
            for revision, job in enumerate(life, 1):
                self.finish(job, life[0].devices, revision)
            for device in life[0].devices:
                self.shown.append({"id": life[0].activity, "device": device, "channel": None,
                                   "content_state": {"n": life[-1].number}})
        self.life = life

    def finish(self, job, devices, revision=None):
        """Published, sent and reported correctly."""
        job.published_at = job.confirmed_at = BEGAN
        self.jobs[job.id] = job
        self.tell(job.id, "completed", summary={"devices": len(devices), "accepted": len(devices)}, revision=revision)
        for device in devices:
            part = self.tell(f"{job.id}/0", "accepted", parent_id=job.id, device=device, revision=revision)
            self.acceptances[part.apns_id] = 1
            self.reached[part.apns_id] = {audiences.token(int(device.removeprefix("phone-")))}

    def tell(self, job_id, outcome, **fields):
        told = types.SimpleNamespace(
            job_id=job_id, apns_id=f"apns-{len(self.outcomes)}", outcome=outcome, ambiguous=False,
            completed_at=BEGAN * 1000 + 1000, detail=None,
            **({"parent_id": None, "device": None, "channel": None, "revision": None, "summary": None} | fields))
        self.outcomes.append(told)
        return told

    def parts(self, job):
        return [outcome for outcome in self.outcomes if outcome.parent_id == job.id]

    def parent(self, job):
        return next(outcome for outcome in self.outcomes if outcome.job_id == job.id)

    def findings(self, windows=()):
        verdict = Verdict()
        audit(verdict, self.jobs, self.outcomes, self.acceptances, self.shown, windows, self.reached)
        return {kind: len(texts) for kind, texts in verdict.findings.items()}

    def test_a_run_that_was_well(self):
        self.assertEqual({job.kind for job in self.jobs.values()}, {"alert", "start", "update", "end"})
        self.assertEqual(self.findings(), {})

    def test_a_lost_audience(self):
        self.outcomes.remove(self.parent(self.alerts[0]))
        self.assertEqual(self.findings(), {"audience lost": 1})

    def test_a_device_that_was_missed(self):
        self.outcomes.remove(self.parts(self.alerts[0])[0])
        self.assertEqual(self.findings(), {"device missed": 1})

    def test_an_audience_of_another_size(self):
        self.parent(self.alerts[0]).summary["devices"] -= 1
        self.assertEqual(self.findings(), {"audience of another size": 1})
        self.tell(self.alerts[0].id, "completed", summary={"devices": 1})
        self.assertEqual(self.findings(), {"audience of another size": 1, "two summaries of an audience": 1})

    def test_redis_may_be_emptied(self):
        self.outcomes.remove(self.parts(self.alerts[0])[0])
        self.outcomes.remove(self.parent(self.alerts[1]))
        self.shown[0]["content_state"]["n"] = 1
        self.assertEqual(self.findings([Window("redis-flush", BEGAN - 5, BEGAN - 5)]), {})
        self.assertEqual(
            self.findings([Window("redis-flush", BEGAN - 50, BEGAN - 50)]),
            {"device missed": 1, "audience lost": 1, "an older state is shown": 1})

    def test_a_refused_audience(self):
        self.parent(self.alerts[0]).outcome = "invalid"
        self.assertEqual(self.findings(), {"audience's outcome that must not be": 1})

    def test_a_refused_update(self):
        start, update = next(life for life in self.lives if len(life) > 2 and life[-1].kind != "end")[:2]
        self.parent(update).outcome = "invalid"
        self.assertEqual(self.findings(), {}, "it was published before its start was carried out")
        update.published_at = BEGAN + 2
        self.assertEqual(self.findings(), {"audience's outcome that must not be": 1})
        self.parent(update).outcome = "throttled"
        self.assertEqual(self.findings(), {})
        self.parent(start).outcome = "throttled"
        self.assertEqual(self.findings(), {"audience's outcome that must not be": 1})

    def test_a_device_that_is_not_started(self):
        start = next(life[0] for life in self.lives if life[-1].kind != "end")
        self.outcomes.remove(self.parts(start)[0])
        self.assertEqual(self.findings(), {"device missed": 1})

    def test_a_device_that_got_it_twice(self):
        part = self.parts(self.alerts[0])[0]
        self.acceptances[part.apns_id] = 2
        self.assertEqual(self.findings(), {"device sent twice, unmarked": 1})
        part.ambiguous = True
        self.assertEqual(self.findings(), {})

    def test_a_device_in_two_pages(self):
        part = self.parts(self.alerts[0])[0]
        again = self.tell(f"{self.alerts[0].id}/1", "accepted", parent_id=self.alerts[0].id, device=part.device)
        self.acceptances[again.apns_id] = 1
        self.assertEqual(self.findings(), {"device sent twice, unmarked": 1})

    def test_a_broadcast_that_was_sent_twice(self):
        job = self.life[-1]
        broadcast = self.tell(f"{job.id}/channel", "accepted", parent_id=job.id, channel="AAAA")
        self.acceptances[broadcast.apns_id] = 1
        self.assertEqual(self.findings(), {})
        self.acceptances[broadcast.apns_id] = 2
        self.assertEqual(self.findings(), {"device sent twice, unmarked": 1})

    def test_accepted_by_nobody(self):
        del self.acceptances[self.parts(self.alerts[0])[0].apns_id]
        self.assertEqual(self.findings(), {"told as accepted, unknown to APNs": 1})

    def test_a_stranger(self):
        alert = self.alerts[1]
        stranger = next(audiences.device(number) for number in range(40) if audiences.device(number) not in alert.devices)
        part = self.tell(f"{alert.id}/0", "accepted", parent_id=alert.id, device=stranger)
        self.acceptances[part.apns_id] = 1
        self.tell("other", "completed", summary={"devices": 0})
        self.assertEqual(
            self.findings(), {"sent outside the audience": 1, "outcome of an audience that nobody asked for": 1})
        self.assertEqual(
            self.findings([Window("redis-flush", BEGAN, BEGAN)]),
            {"sent outside the audience": 1, "outcome of an audience that nobody asked for": 1})

    def test_another_device(self):
        part = self.parts(self.alerts[0])[0]
        self.reached[part.apns_id].add(audiences.token(int(part.device.removeprefix("phone-")) ^ 1))
        self.assertEqual(
            self.findings([Window("redis-flush", BEGAN, BEGAN)]), {"sent to another device": 1}, "nothing excuses it")

    def test_an_older_state(self):
        self.shown[-1]["content_state"]["n"] = self.life[0].number
        self.assertEqual(self.findings(), {"an older state is shown": 1})
        part = next(one for one in self.parts(self.life[-1]) if one.device == self.shown[-1]["device"])
        part.outcome = "failed"
        self.assertEqual(self.findings(), {}, "its outcome says so")
        part.outcome = "accepted"
        broadcast = self.tell(f"{self.life[-1].id}/channel", "failed", parent_id=self.life[-1].id, channel="AAAA")
        self.acceptances[broadcast.apns_id] = 0
        self.assertEqual(self.findings(), {"an older state is shown": 1}, "it is not on the channel")
        self.shown[-1]["channel"] = "AAAA"
        self.assertEqual(self.findings(), {}, "its broadcast says so")

    def test_an_activity_that_was_started_twice(self):
        self.shown.append(self.shown[-1])
        self.assertEqual(self.findings(), {"started twice, unmarked": 1})

    def test_an_activity_that_nobody_started(self):
        self.shown.append(self.shown[-1] | {"id": "ride-x"})
        self.assertEqual(self.findings(), {"activity that nobody started": 1})


if __name__ == "__main__":
    unittest.main()
