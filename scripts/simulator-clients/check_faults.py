"""Every fault, on the wire, as Python's h2 sees it: by flag, by device token, and at the control port."""

import collections
import os
import re
import socket
import subprocess
import time
import uuid

import h2.events
import h2.settings
from h2_client import Client
from simulator import APP, DEVICE, Simulator, check, fault_case, finish

# The token's first digits, and the results of the first and the second try. Both tries have the same apns-id.
PREFIX_ROWS = [
    ("00fc", "200", "200"),
    ("dead", "410 Unregistered", "410 Unregistered"),
    ("dea1", "410 ExpiredToken", "410 ExpiredToken"),
    ("dea2", "410 Unregistered", "410 Unregistered"),
    ("bad0", "400 BadDeviceToken", "400 BadDeviceToken"),
    ("bad1", "400 DeviceTokenNotForTopic", "400 DeviceTokenNotForTopic"),
    ("bad2", "400 TopicDisallowed", "400 TopicDisallowed"),
    ("bad3", "400 SomethingNew", "400 SomethingNew"),
    ("bad4", "400", "400"),
    ("bad5", "400 BadDeviceToken", "400 BadDeviceToken"),
    ("bad6", "400 <html>", "400 <html>"),
    ("4030", "403 ExpiredProviderToken", "403 ExpiredProviderToken"),
    ("4031", "403 InvalidProviderToken", "403 InvalidProviderToken"),
    ("4130", "413 PayloadTooLarge", "413 PayloadTooLarge"),
    ("7007", "429 TooManyRequests", "429 TooManyRequests"),
    ("7008", "429 TooManyProviderTokenUpdates", "429 TooManyProviderTokenUpdates"),
    ("5000", "500 InternalServerError", "500 InternalServerError"),
    ("5001", "500 SomethingNew", "500 SomethingNew"),
    ("5030", "503 ServiceUnavailable", "503 ServiceUnavailable"),
    ("5031", "503 Shutdown", "503 Shutdown"),
    ("1429", "429 TooManyRequests", "200"),
    ("1500", "500 InternalServerError", "200"),
    ("1503", "503 ServiceUnavailable", "200"),
    ("2503", "503 ServiceUnavailable", "503 ServiceUnavailable"),
    ("f007", "reset 7", "200"),
    ("f002", "reset 2", "200"),
    ("f008", "reset 8", "200"),
    ("d0b0", "dropped", "200"),
    ("d0a0", "dropped", "200"),
    ("ab50", "silence", "silence"),
    ("ab51", "silence", "200"),
    ("60a0", "answered", "200"),
    ("60a1", "not processed", "200"),
    ("51a0", "200", "200"),
    ("51a1", "200", "200"),
    ("51a2", "200", "200"),
    ("ac71", "200", "200"),
    ("ac72", "200", "200"),
    ("ac73", "200", "200"),
    ("ac74", "200", "200"),
    ("ac75", "200", "200"),
]
# Tokens with a late answer: after at least this many seconds.
SLOW = {"51a0": 0.1, "51a1": 1.0, "51a2": 0.02}

# A fault, and the results of four requests in a row; a new connection after one that broke.
LINE_ROWS = [
    ("status=503,reason=ServiceUnavailable", ["503 ServiceUnavailable"] * 4),
    ("status=418,reason=NeverHeardOf", ["418 NeverHeardOf"] * 4),
    ("status=599", ["599"] * 4),
    ("lost,reorder,register=never,swipe=1,renew=1", ["200"] * 4),
    ("status=500,reason=InternalServerError,times=2", ["500 InternalServerError"] * 2 + ["200"] * 2),
    ("status=500,reason=InternalServerError,after=2", ["200"] * 2 + ["500 InternalServerError"] * 2),
    ("prefix=00fd,status=503,reason=ServiceUnavailable", ["200"] * 4),
    ("prefix=00fc,status=503,reason=ServiceUnavailable", ["503 ServiceUnavailable"] * 4),
    ("topic=com.example.other,status=503,reason=ServiceUnavailable", ["200"] * 4),
    (f"topic={APP},status=503,reason=ServiceUnavailable", ["503 ServiceUnavailable"] * 4),
    ("type=voip,status=503,reason=ServiceUnavailable", ["200"] * 4),
    ("type=alert,status=503,reason=ServiceUnavailable", ["503 ServiceUnavailable"] * 4),
    ("share=0,status=503,reason=ServiceUnavailable", ["200"] * 4),
    ("share=1,status=503,reason=ServiceUnavailable", ["503 ServiceUnavailable"] * 4),
    ("status=400,reason=BadDeviceToken,body=missing", ["400"] * 4),
    ("status=400,reason=BadDeviceToken,body=raw:<html>", ["400 <html>"] * 4),
    *[(f"reset={code}", [f"reset {code}"] * 4) for code in (0, 1, 2, 7, 8, 11, 13)],
    ("reset=8,processed,times=1", ["reset 8", "200", "200", "200"]),
    ("drop", ["dropped"] * 4),
    ("drop,processed,times=1", ["dropped", "200", "200", "200"]),
    ("silence,times=1", ["silence", "200", "200", "200"]),
    ("silence,processed,times=1", ["silence", "200", "200", "200"]),
    ("goaway=previous", ["not processed"] * 4),
    ("goaway=0", ["not processed"] * 4),
    ("goaway=this,times=1", ["answered", "200", "200", "200"]),
    ("after=1,goaway=previous,times=1", ["200", "not processed", "200", "200"]),
]

# Seconds after which an answer counts as missing.
PATIENCE = 0.3


class Sender:
    """Sends one request after another, on a new connection if the last one was lost."""

    def __init__(self, simulator):
        self.simulator = simulator
        self.client = None

    def send(self, token, identity=None, is_silent=False):
        if self.client is None:
            self.client = Client(self.simulator.port)
            self.client.until(h2.events.RemoteSettingsChanged)
        stream = self.client.post(token, extra=[("apns-id", identity or str(uuid.uuid4()))])
        outcome = self.client.outcome(stream, PATIENCE if is_silent else 5)
        if outcome in ("dropped", "answered", "not processed", "silence"):
            self.close()
        return outcome

    def close(self):
        if self.client:
            self.client.close()
        self.client = None


def prefixes(simulator):
    sender = Sender(simulator)
    for prefix, *expected in PREFIX_ROWS:
        identity, token = str(uuid.uuid4()), prefix + DEVICE
        began = time.monotonic()
        seen = [sender.send(token, identity, is_silent=outcome == "silence") for outcome in expected]
        took = (time.monotonic() - began) / 2
        fault_case(f"{prefix}…: {expected[0]}, {expected[1]}", seen == expected, seen)
        if prefix in SLOW:
            check(f"{prefix}… after {SLOW[prefix]} s", took >= SLOW[prefix], took)
    identity = str(uuid.uuid4())
    tries = [sender.send("2503" + DEVICE, identity) for _ in range(3)]
    check("2503…: the third try", tries[2] == "200", tries)
    sender.close()
    printed = subprocess.run(
        [os.environ["APNS_SIMULATOR"], "--prefixes"], stdout=subprocess.PIPE, text=True, timeout=20, check=True).stdout
    known = set(re.findall(r"^([0-9a-f]{4})…", printed, re.MULTILINE))
    check("every token of the printed table was sent", known == {row[0] for row in PREFIX_ROWS} - {"00fc"}, known)


def lines(simulator):
    for line, expected in LINE_ROWS:
        simulator.control("POST", "/faults", line)
        sender = Sender(simulator)
        seen = [sender.send(DEVICE, is_silent=outcome == "silence") for outcome in expected]
        fault_case(line, seen == expected, seen)
        sender.close()
        simulator.control("DELETE", "/faults")


def connected(simulator):
    client = Client(simulator.port)
    client.until(h2.events.RemoteSettingsChanged)
    return client


def shares_and_tries(simulator):
    simulator.control("POST", "/faults", "share=0.3,status=503,reason=ServiceUnavailable")
    client = connected(simulator)
    seen = collections.Counter(client.outcome(client.post()) for _ in range(400))
    fault_case("share=0.3", 70 <= seen["503 ServiceUnavailable"] <= 170 and sum(seen.values()) == 400, seen)
    simulator.control("DELETE", "/faults")
    simulator.control("POST", "/faults", "attempts=2,status=503,reason=ServiceUnavailable")
    identity = [("apns-id", str(uuid.uuid4()))]
    tries = [client.outcome(client.post(extra=identity)) for _ in range(3)]
    fault_case("attempts=2", tries == ["503 ServiceUnavailable"] * 2 + ["200"], tries)
    simulator.control("DELETE", "/faults")
    first = simulator.control("POST", "/faults", "status=500,reason=InternalServerError")[0]
    both = simulator.control("POST", "/faults", "latency=1")
    check("faults are listed", [fault["fault"] for fault in both] == ["status=500,reason=InternalServerError", "latency=1"])
    client.outcome(client.post())
    counted = simulator.control("GET", "/faults")[0]["count"]
    check("and how many requests they met", counted == 1, counted)
    simulator.control("DELETE", f"/faults/{first['id']}")
    fault_case("one fault cleared", client.outcome(client.post()) == "200")
    simulator.control("DELETE", "/faults")


def bodies_and_times(simulator):
    client = connected(simulator)
    simulator.control("POST", "/faults", "status=400,reason=BadTopic,body=split:3")
    stream = client.post()
    outcome, parts = client.outcome(stream), client.body(stream)
    fault_case("body=split:3", outcome == "400 BadTopic" and len(parts) == 7 and max(map(len, parts)) == 3, parts)
    simulator.control("DELETE", "/faults")
    simulator.control("POST", "/faults", "status=410,reason=Unregistered,timestamp=1700000000000")
    stream = client.post()
    client.outcome(stream)
    body = b"".join(client.body(stream))
    fault_case("timestamp", body == b'{"reason":"Unregistered","timestamp":1700000000000}', body)
    simulator.control("DELETE", "/faults")

    for line, low, high, count in [("latency=150", 0.15, 4, 2), ("latency=50-150", 0.05, 4, 4)]:
        simulator.control("POST", "/faults", line)
        took = []
        for _ in range(count):
            began = time.monotonic()
            client.outcome(client.post())
            took.append(time.monotonic() - began)
        fault_case(line, low <= min(took) and max(took) < high, took)
        simulator.control("DELETE", "/faults")
    # All at once: a hundred waits take no longer than the longest.
    simulator.control("POST", "/faults", "latency=exp:60")
    began, waits = time.monotonic(), {}
    open_streams = {client.post(): None for _ in range(100)}
    while len(waits) < 100 and time.monotonic() - began < 5:
        client.read(0.05)
        for event in client.events:
            if isinstance(event, h2.events.StreamEnded) and event.stream_id in open_streams:
                waits.setdefault(event.stream_id, time.monotonic() - began)
    # Of a hundred such waits the shortest is next to none and the longest far above the mean.
    spread = max(waits.values()) - min(waits.values())
    fault_case("latency=exp:60", len(waits) == 100 and 0.12 < spread < 4, spread)
    simulator.control("DELETE", "/faults")
    client.close()


def goaways(simulator):
    rows = [
        ("goaway=this,reason=Shutdown", 0, 0, b'{"reason":"Shutdown"}'),
        ("goaway=previous,code=2", -2, 2, b""),
        ("goaway=all,code=11,reason=Calm", 2**31 - 1, 11, b'{"reason":"Calm"}'),
        ("goaway=1,code=7", 1, 7, b""),
    ]
    for line, last, code, debug in rows:
        client = connected(simulator)
        client.outcome(client.post())
        simulator.control("POST", "/faults", line)
        stream = client.post()
        event = client.until(h2.events.ConnectionTerminated)
        wanted = stream + last if last in (0, -2) else last
        seen = event and (event.last_stream_id, int(event.error_code), event.additional_data or b"")
        fault_case(f"{line}: its frame", seen == (wanted, code, debug), seen)
        client.close()
        simulator.control("DELETE", "/faults")


def whole_connections(simulator):
    client = connected(simulator)
    client.outcome(client.post())
    simulator.control("POST", "/faults", "no-ping-ack")
    client.events.clear()
    client.h2.ping(b"87654321")
    client.flush()
    fault_case("no-ping-ack", client.until(h2.events.PingAckReceived, seconds=0.3) is None)
    simulator.control("DELETE", "/faults")
    client.h2.ping(b"12345678")
    client.flush()
    check("and PINGs are answered again", client.until(h2.events.PingAckReceived) is not None)
    client.close()

    simulator.control("POST", "/faults", "withhold-window")
    slow = connected(simulator)
    big = b'{"aps":{"alert":"' + b"x" * 4000 + b'"}}'
    count = 0
    while count < 40 and slow.h2.outbound_flow_control_window >= len(big):
        slow.status(slow.post(payload=big))
        count += 1
    fault_case("withhold-window", 10 <= count <= 16, count)
    simulator.control("DELETE", "/faults")
    check("and the window is opened again", slow.until(h2.events.WindowUpdated, seconds=2) is not None)
    slow.close()

    client = connected(simulator)
    client.outcome(client.post())
    client.until(h2.events.RemoteSettingsChanged)
    simulator.control("POST", "/faults", "times=1,streams=1000/1/1000,every=150")
    client.outcome(client.post())
    # By its frames: on a busy machine two of them are read at once.
    code, seen, deadline = h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS, [], time.monotonic() + 5
    while not (1 in seen and client.limit() == 1000) and time.monotonic() < deadline:
        client.read(0.05)
        changes = [event.changed_settings for event in client.events if isinstance(event, h2.events.RemoteSettingsChanged)]
        seen = [change[code].new_value for change in changes if code in change]
    fault_case("streams=1000/1/1000", 1 in seen and client.limit() == 1000, seen)
    simulator.control("DELETE", "/faults")
    client.close()

    simulator.control("POST", "/faults", "refuse")
    deadline, refused = time.monotonic() + 5, False
    while not refused and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", simulator.port), timeout=1).close()
        except ConnectionRefusedError:
            refused = True
    fault_case("refuse", refused)
    simulator.control("DELETE", "/faults")
    deadline, client = time.monotonic() + 5, None
    while client is None and time.monotonic() < deadline:
        try:
            client = connected(simulator)
        except ConnectionRefusedError:
            time.sleep(0.02)
    fault_case("refuse cleared", client is not None and client.outcome(client.post()) == "200")
    client.close()


def actions(simulator):
    client = connected(simulator)
    client.outcome(client.post())
    simulator.control("POST", "/actions", "goaway=all,reason=Maintenance")
    event = client.until(h2.events.ConnectionTerminated)
    fault_case("action goaway", event and event.additional_data == b'{"reason":"Maintenance"}', event)
    client.close()

    client = connected(simulator)
    client.outcome(client.post())
    client.until(h2.events.RemoteSettingsChanged)
    simulator.control("POST", "/actions", "streams=1")
    deadline = time.monotonic() + 5
    while client.limit() != 1 and time.monotonic() < deadline:
        client.read(0.05)
    fault_case("action streams=1", client.limit() == 1, client.limit())
    simulator.control("POST", "/actions", "drop")
    fault_case("action drop", client.until_closed())

    client = connected(simulator)
    client.outcome(client.post())
    simulator.control("POST", "/actions", "shutdown")
    event = client.until(h2.events.ConnectionTerminated)
    fault_case("action shutdown: announced", event and event.additional_data == b'{"reason":"Shutdown"}', event)
    late = connected(simulator)
    fault_case("action shutdown: what still comes", late.outcome(late.post()) == "503 Shutdown")
    simulator.control("DELETE", "/faults")
    fault_case("action shutdown: over", late.outcome(late.post()) == "200")

    simulator.control("POST", "/devices", f"{DEVICE} unregistered 1700000000000")
    fault_case("a device that is gone", late.outcome(late.post()) == "410 Unregistered")
    simulator.control("POST", "/devices", f"{DEVICE} ok\n{DEVICE} foreign")
    fault_case("a device of the other environment", late.outcome(late.post()) == "400 BadDeviceToken")
    simulator.control("POST", "/devices", f"{DEVICE} ok\n{DEVICE} topic=com.example.other")
    fault_case("a device of another topic", late.outcome(late.post()) == "400 DeviceTokenNotForTopic")
    simulator.control("POST", "/devices", f"{DEVICE} ok")
    check("and it is back", late.outcome(late.post()) == "200")
    late.close()


def by_flag():
    with Simulator("--fault", "handshake=300", "--fault", "times=1,status=503,reason=ServiceUnavailable") as simulator:
        trust = simulator.trust()
        trust.set_alpn_protocols(["h2"])
        began = time.monotonic()
        client = Client(simulator.port, trust)
        took = time.monotonic() - began
        fault_case("--fault handshake=300", 0.3 <= took < 5, took)
        token = [("authorization", f"bearer {simulator.token()}")]
        seen = [client.outcome(client.post(extra=token)) for _ in range(2)]
        fault_case("--fault with a status", seen == ["503 ServiceUnavailable", "200"], seen)
        simulator.control("POST", "/clock", "4000")
        old = client.outcome(client.post(extra=token))
        fault_case("a clock an hour ahead", old == "403 ExpiredProviderToken", old)
        simulator.control("POST", "/clock", "0")
        key = simulator.ready["credential"]["key_id"]
        simulator.control("POST", "/actions", f"revoke={key}")
        fault_case("a revoked key's connection", client.until_closed())
        again = Client(simulator.port, trust)
        refused = again.outcome(again.post(extra=token))
        fault_case("a revoked key's token", refused == "403 InvalidProviderToken", refused)
        again.close()


def main():
    with Simulator("--plaintext", "--no-credentials") as simulator:
        prefixes(simulator)
        lines(simulator)
        shares_and_tries(simulator)
        bodies_and_times(simulator)
        goaways(simulator)
        whole_connections(simulator)
        actions(simulator)
    by_flag()
    finish()


main()
