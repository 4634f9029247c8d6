"""The audit of audiences must notice: each test corrupts one record of a correct run. Run: python3 test_audit_audiences.py"""

import types
import unittest

import audiences
from apns import Request
from audit import Verdict, Window
from audit_audiences import audit

BEGAN = 1_800_000_000


class AuditAudiencesTests(unittest.TestCase):
    def setUp(self):
        self.jobs, self.outcomes, self.acceptances, self.shown, self.requests = {}, [], {}, [], []
        maker = audiences.Maker(7)
        self.alerts = [maker.alert() for _ in range(12)]
        for job in self.alerts:
            self.finish(job, job.devices)
        self.lives = []
        for _ in range(12):
            # In the order of their numbers, whatever order they were published in.
            self.lives += [sorted((job for _, job in life), key=lambda one: one.number) for life in maker.lives()]
        for life in self.lives:
            for revision, job in enumerate(life, 1):
                self.finish(job, life[0].devices, revision)
            for device in life[0].devices:
                self.shown.append({"id": life[0].activity, "app": life[0].app, "device": device, "channel": None,
                                   "update_token": f"80{len(self.shown)}", "content_state": {"n": life[-1].number}})
        self.life = life

    def finish(self, job, devices, revision=None):
        """Published, sent and reported correctly."""
        job.published_at = job.confirmed_at = BEGAN
        self.jobs[job.id] = job
        self.tell(job.id, "completed", summary={"devices": len(devices), "accepted": len(devices)}, revision=revision)
        for device in devices:
            part = self.tell(f"{job.id}/0", "accepted", parent_id=job.id, device=device, revision=revision)
            self.acceptances[part.apns_id] = 1
            self.ask(part, job.app, min(audiences.tokens_of(job.app, device)))

    def ask(self, part, topic, token, status=200):
        self.requests.append(Request(part.apns_id, token, topic, "production", 1, BEGAN, status, None, "answered"))

    def tell(self, job_id, outcome, **fields):
        told = types.SimpleNamespace(
            job_id=job_id, apns_id=f"apns-{len(self.outcomes)}", outcome=outcome, app=self.app_of(fields.get("parent_id") or job_id), ambiguous=False,
            completed_at=BEGAN * 1000 + 1000, detail=None,
            **({"parent_id": None, "device": None, "channel": None, "revision": None, "summary": None} | fields))
        self.outcomes.append(told)
        return told

    def app_of(self, job_id):
        return self.jobs[job_id].app if job_id in self.jobs else "com.example.unknown"

    def parts(self, job):
        return [outcome for outcome in self.outcomes if outcome.parent_id == job.id]

    def parent(self, job):
        return next(outcome for outcome in self.outcomes if outcome.job_id == job.id)

    def findings(self, windows=()):
        verdict = Verdict()
        audit(verdict, self.jobs, self.outcomes, self.acceptances, self.shown, windows, self.requests)
        return {kind: len(texts) for kind, texts in verdict.findings.items()}

    def test_a_run_that_was_well(self):
        self.assertEqual({job.kind for job in self.jobs.values()}, {"alert", "start", "update", "end"})
        names = {(life[0].app, life[0].activity) for life in self.lives}
        self.assertLess(len({name for _, name in names}), len(names), "two apps have an activity of one name")
        twins = {(app, audiences.composed(name)) for app, name in names}
        self.assertLess(len(twins), len(names), "one app has two whose names are equal only canonically")
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
        self.shown[0]["content_state"]["n"] = self.lives[0][0].number
        for kind in ("redis-flush", "redis-rewind", "redis-promote"):
            self.assertEqual(self.findings([Window(kind, BEGAN - 5, BEGAN - 5)]), {})
        wrong = {"device missed": 1, "audience lost": 1, "an older state is shown": 1}
        self.assertEqual(self.findings([Window("redis-flush", BEGAN - 50, BEGAN - 50)]), wrong)
        self.assertEqual(self.findings([Window("redis-evict", BEGAN - 5, BEGAN - 5)]), wrong, "devices are not evicted")

    def test_redis_may_evict_what_it_knows_of_pushes(self):
        self.acceptances[self.parts(self.alerts[0])[0].apns_id] = 2
        self.shown.append(self.shown[-1])
        self.assertEqual(self.findings([Window("redis-evict", BEGAN - 5, BEGAN - 5)]), {})
        self.assertEqual(self.findings(), {"device sent twice, unmarked": 1, "started twice, unmarked": 1})

    def test_a_refused_audience(self):
        self.parent(self.alerts[0]).outcome = "invalid"
        self.assertEqual(self.findings(), {"audience's outcome that must not be": 1})

    def test_a_refused_update(self):
        start, update = next(life for life in self.lives if len(life) > 2 and life[-1].kind != "end")[:2]
        wrong = {"audience's outcome that must not be": 1}
        told = self.parent(update)
        told.outcome, told.detail = "invalid", "to.activity: is not known: no start and no update token of it came"
        self.assertEqual(self.findings(), wrong, "its start was carried out soon")
        self.parent(start).completed_at = (BEGAN + 40) * 1000
        self.assertEqual(self.findings(), {"refused before its start could come": 1})
        self.assertEqual(self.findings([Window("worker-clock", BEGAN, BEGAN + 1)]), {})
        told.completed_at = (BEGAN + 30) * 1000
        self.assertEqual(self.findings(), {})
        update.published_at = BEGAN + 20
        told.completed_at = (BEGAN + 50) * 1000
        self.assertEqual(self.findings(), wrong, "it waits for half a minute")
        update.published_at = BEGAN
        told.detail = "to.activity: has ended; start another under a new id"
        self.assertEqual(self.findings(), wrong, "nothing ended it")

    def test_a_refused_newest_state(self):
        start, *_, last = next(life for life in self.lives if len(life) > 2 and life[-1].kind != "end")
        told = self.parent(last)
        told.outcome, told.detail = "invalid", "to.activity: is not known: no start and no update token of it came"
        for card in self.shown:
            if (card["app"], card["id"]) == (start.app, start.activity):
                card["content_state"] = {"n": last.number - 1}
        self.assertEqual(self.findings(), {
            "audience's outcome that must not be": 1, "an older state is shown": len(start.devices)}, "it is the newest all the same")
        self.parent(start).completed_at = (BEGAN + 40) * 1000
        told.completed_at = (BEGAN + 30) * 1000
        self.assertEqual(self.findings(), {})

    def test_an_update_before_the_end(self):
        life = next(life for life in self.lives if len(life) > 2 and life[-1].kind == "end")
        told = self.parent(life[1])
        told.outcome, told.detail = "invalid", "to.activity: has ended; start another under a new id"
        self.assertEqual(self.findings(), {"audience's outcome that must not be": 1}, "its number is smaller than the end's")
        told.outcome = "throttled"
        self.assertEqual(self.findings(), {})
        told = self.parent(life[0])
        told.outcome, told.detail = "invalid", "activity: has ended; start another under a new id"
        self.assertEqual(self.findings(), {}, "a start is too late then")

    def test_an_update_that_nothing_overtook(self):
        life = next(life for life in self.lives if len(life) > 2 and life[-1].kind == "update")
        self.parent(life[1]).outcome = "throttled"
        self.assertEqual(self.findings(), {})
        self.parent(life[-1]).outcome = "throttled"
        self.assertEqual(self.findings(), {"audience's outcome that must not be": 1})
        self.parent(life[-1]).outcome = "completed"
        for job in life[2:]:
            job.published_at = BEGAN + 10
        self.assertEqual(self.findings(), {"audience's outcome that must not be": 1}, "the newer ones came later")

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

    def test_a_twin_that_got_what_was_the_others(self):
        number = 32
        name, twin = audiences.device(number), audiences.device(number + 1)
        self.assertEqual(audiences.composed(twin), name)
        job = next(one for one in self.alerts if {name, twin} <= one.devices)
        part = next(one for one in self.parts(job) if one.device == name)
        request = next(one for one in self.requests if one.apns_id == part.apns_id)
        self.requests.append(request._replace(token=audiences.token(job.app, number + 1)))
        self.assertEqual(self.findings(), {"sent to another device": 1})
        self.requests.pop()
        part.device = twin
        self.assertEqual(self.findings(), {"device missed": 1, "sent to another device": 1, "device sent twice, unmarked": 1})

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
        app = self.alerts[0].app
        other = next(audiences.device(number) for number in range(40) if audiences.device(number) != part.device)
        self.ask(part, app, min(audiences.tokens_of(app, other)))
        self.assertEqual(
            self.findings([Window("redis-flush", BEGAN, BEGAN)]), {"sent to another device": 1}, "nothing excuses it")

    def test_another_apps_device(self):
        start = self.life[0]
        rival = next(app for app in audiences.AUDIENCE_APPS if app != start.app)
        part = self.parts(start)[0]
        self.ask(part, f"{start.app}.push-type.liveactivity", min(audiences.tokens_of(rival, part.device)), status=503)
        flush = [Window("redis-flush", BEGAN, BEGAN)]
        self.assertEqual(self.findings(flush), {"sent to another app's device": 1}, "nothing excuses it, refused or not")
        self.requests.pop()
        update, part = self.shown[-1]["update_token"], self.parts(self.life[-1])[0]
        self.ask(part, f"{start.app}.push-type.liveactivity", update)
        self.assertEqual(self.findings(), {})
        self.requests.pop()
        self.ask(part, f"{rival}.push-type.liveactivity", update)
        self.assertEqual(self.findings(flush), {"sent to another app's device": 1})

    def test_an_outcome_of_another_app(self):
        self.parent(self.alerts[0]).app = "com.example.other"
        self.assertEqual(self.findings(), {"outcome of another app": 1})

    def test_another_activitys_state(self):
        twin, other = next(
            (one, two) for one in self.lives for two in self.lives
            if one[0].app == two[0].app and audiences.decomposed(one[0].activity) == two[0].activity != one[0].activity)
        card = next(one for one in self.shown if (one["app"], one["id"]) == (twin[0].app, twin[0].activity))
        card["content_state"] = {"n": other[-1].number}
        flush = [Window("redis-flush", BEGAN, BEGAN)]
        self.assertEqual(self.findings(), {"another activity's state is shown": 1, "an older state is shown": 1})
        self.assertEqual(self.findings(flush), {"another activity's state is shown": 1})
        card["channel"] = "AAAA"
        self.assertEqual(self.findings(flush), {"another activity's state is shown": 1}, "on a channel, too")

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
        self.shown[-1] = self.shown[0] | {"app": "com.example.other"}
        self.assertEqual(self.findings(), {"activity that nobody started": 1})


if __name__ == "__main__":
    unittest.main()
