"""The auditor's fifth part: messages that no honest producer publishes. Each that is a job has an end, an outcome or a dead letter, and what
Herald says of them is UTF-8. That no worker died of one, and no other's job suffered, the other parts say."""

import forgeries


def audit(verdict, messages, ended, garbled):
    """ended: the ids that outcomes, replies and dead letters name. garbled: properties that are not UTF-8, of what Herald published."""
    seen = {_text(one)[:forgeries.ID_LENGTH] for one in ended}
    for message in messages:
        verdict.counts["forged"] += 1
        if message.must_end and message.id not in seen:
            verdict.fail("forged job without an end", f"{message.id} to {message.routing_key}: {message.body[:400]} {message.properties}")
    for name, value in garbled:
        verdict.fail("a property that is not UTF-8", f"{name} {value}")


def _text(one):
    return one.decode(errors="replace") if isinstance(one, bytes) else str(one)
