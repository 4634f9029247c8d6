"""The simulator's frames without a fault, as Python's h2 sees them: the stream limit, PINGs, its record of a client that
breaks rules, and as many channels as an app may have."""

import json
import time

import h2.events
import h2.settings
from h2_client import Client
from simulator import APP, DEVICE, Simulator, check, finish, rule_case

CHANNELS_MAXIMUM = 10_000


def count(events, kind):
    return sum(isinstance(event, kind) for event in events)


def answers(events):
    return [dict(event.headers) for event in events if isinstance(event, h2.events.ResponseReceived)]


def limits(simulator):
    client = Client(simulator.port)
    client.until(h2.events.RemoteSettingsChanged)
    rule_case("one stream at first", client.limit() == 1, client.limit())
    refused = client.outcome(client.post(topic="no topic"))
    client.read(0.2)
    rule_case("and as long as nothing is valid", refused == "400 BadTopic" and client.limit() == 1, client.limit())
    client.events.clear()
    rule_case("a valid request", client.outcome(client.post()) == "200")
    client.until(h2.events.RemoteSettingsChanged, seconds=1)
    rule_case("then a thousand", client.limit() == 1000, client.limit())
    window = client.h2.outbound_flow_control_window
    rule_case("a send window of 65,535 bytes", window <= 65_535, window)
    client.h2.ping(b"12345678")
    client.flush()
    check("PING acknowledged", client.until(h2.events.PingAckReceived) is not None)
    client.close()


def greedy(simulator):
    client = Client(simulator.port)
    client.until(h2.events.RemoteSettingsChanged)
    # As if the limit were a thousand: h2 would not exceed the real limit.
    client.h2.remote_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = 1000
    client.h2.remote_settings.acknowledge()
    for _ in range(5):
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, [
            (":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", f"/3/device/{DEVICE}")])
        client.flush()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        connection = simulator.control("GET", "/connections")[-1]
        if connection["streams_over_limit"] or client.is_closed:
            break
        client.read(0.05)
    check("a client over the limit is found", connection["streams_over_limit"] > 0, connection)
    client.close()


def channels(simulator):
    """Creates the maximum number of channels, many at once, and one more."""
    client = Client(simulator.ready["manage_port"])
    client.until(h2.events.RemoteSettingsChanged)
    path = f"/1/apps/{APP}/channels"
    body = json.dumps({"message-storage-policy": 0, "push-type": "LiveActivity"}).encode()

    def create():
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, [
            (":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", path)])
        client.h2.send_data(stream, body, end_stream=True)
        return stream

    stream = create()
    client.flush()
    check("the first channel", client.status(stream) == "201")
    client.until(h2.events.RemoteSettingsChanged, seconds=1)
    created, deadline = 1, time.monotonic() + 60
    while created < CHANNELS_MAXIMUM and time.monotonic() < deadline:
        client.events.clear()
        batch = min(200, CHANNELS_MAXIMUM - created)
        for _ in range(batch):
            create()
        client.flush()
        while count(client.events, h2.events.StreamEnded) < batch and client.read(5):
            pass
        created += sum(answer[":status"] == "201" for answer in answers(client.events))
    rule_case("10,000 channels", created == CHANNELS_MAXIMUM, created)
    client.events.clear()
    stream = create()
    client.flush()
    rule_case("and not one more", client.outcome(stream) == "400 CannotCreateChannelConfig", client.told(stream))
    client.close()


def main():
    with Simulator("--plaintext", "--no-credentials") as simulator:
        limits(simulator)
        greedy(simulator)
        channels(simulator)
    finish()


main()
