"""The audit of forged messages must notice. Run: python3 test_audit_forgeries.py"""

import unittest

import pika

import forgeries
from audit import Verdict
from audit_forgeries import audit


class AuditForgeriesTests(unittest.TestCase):
    def setUp(self):
        maker = forgeries.Maker("chaos", 3)
        self.messages = [maker.make() for _ in range(300)]
        self.ended = {f"{message.id}\ufffd" for message in self.messages if message.must_end}

    def findings(self, garbled=()):
        verdict = Verdict()
        audit(verdict, self.messages, self.ended, garbled)
        return {kind: len(texts) for kind, texts in verdict.findings.items()}

    def test_a_run_that_was_well(self):
        self.assertEqual(self.findings(), {})
        self.assertLess(len(self.ended), len(self.messages))
        for message in self.messages:
            self.assertTrue(forgeries.is_forged(message.properties.message_id, message.body))
            pika.BasicProperties().decode(b"".join(message.properties.encode()))

    def test_a_forged_job_without_an_end(self):
        self.ended.remove(min(self.ended))
        self.assertEqual(self.findings(), {"forged job without an end": 1})
        self.ended.add(next(message.id for message in self.messages if message.must_end).encode() + b"\xff")
        self.assertEqual(self.findings(), {})

    def test_what_is_not_utf8(self):
        self.assertEqual(self.findings([("message_id", b"\xff")]), {"a property that is not UTF-8": 1})

    def test_headers_have_every_type(self):
        kinds = {type(value) for message in self.messages for value in (message.properties.headers or {}).values()}
        self.assertLessEqual({bool, bytes, list, dict, str, type(None)}, kinds)


if __name__ == "__main__":
    unittest.main()
