"""The simulator's rules as a table, checked by httpx over HTTP/2: each request, and the expected status and reason."""

import contextlib
import json
import ssl
import time
import uuid

import certificates
import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from simulator import APP, DEVICE, Simulator, check, finish, rule_case

ALERT = {"aps": {"alert": "Hello"}}
SILENT = {"aps": {"content-available": 1}}
CHANGED = {"aps": {"content-changed": True}}
UPDATE = {"aps": {"timestamp": int(time.time()), "event": "update", "content-state": {"score": 1}}}
START = {"aps": {
    "timestamp": int(time.time()), "event": "start", "content-state": {}, "attributes-type": "Match", "attributes": {},
    "alert": {"title": "Kick-off", "body": "It has begun"}}}
ACTIVITY = APP + ".push-type.liveactivity"
ACCESSORY = APP + ".push-type.accessory"
RESPONSE = {"aps": {"encryptedData": "PoX/+w==", "sessionIdentifier": "s-1", "keyID": "AQ==", "messageIndex": "7"}}
OK = (200, None)


def bad(reason, status=400):
    return status, reason


def aps(**keys):
    return {"aps": {name.replace("_", "-"): value for name, value in keys.items()}}


def changed(payload, **keys):
    """A Live Activity's payload with keys of `aps` replaced; None removes one."""
    merged = {**payload["aps"], **{name.replace("_", "-"): value for name, value in keys.items()}}
    return {"aps": {name: value for name, value in merged.items() if value is not None}}


def of_size(count):
    empty = json.dumps({"aps": {"alert": ""}})
    return empty.replace('""', '"' + "x" * (count - len(empty)) + '"')


class Caller:
    """One connection, and valid requests with the changes of a row."""

    def __init__(self, simulator, trust, port=None):
        self.simulator = simulator
        self.token = simulator.token() if simulator.ready["credential"] else None
        self.client = httpx.Client(
            http2=True, verify=trust, base_url=f"https://localhost:{port or simulator.port}", timeout=10)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def send(self, headers, method="POST", path=None, payload=ALERT, repeat=None, base=None):
        """`headers` replaces those of `base`, None removes one; `repeat` sends one twice."""
        fields = dict(base if base is not None else {"apns-topic": APP, "apns-push-type": "alert",
                                                     "apns-id": str(uuid.uuid4())})
        if self.token:
            fields["authorization"] = f"bearer {self.token}"
        fields.update(headers)
        pairs = [(name, value) for name, value in fields.items() if value is not None]
        if repeat:
            pairs.append((repeat, fields.get(repeat) or "1"))
        content = payload if isinstance(payload, (str, bytes)) else json.dumps(payload)
        return self.client.request(method, path or f"/3/device/{DEVICE}", headers=pairs, content=content)

    def row(self, name, expected, headers=None, **other):
        answer = self.send(headers or {}, **other)
        told = answer.json().get("reason") if answer.content and answer.status_code >= 400 else None
        rule_case(name, (answer.status_code, told) == expected, f"{answer.status_code} {told}, not {expected}")
        return answer


# name, answer, headers, and what else the request changes
REQUEST_ROWS = [
    ("an alert", OK, {}, {}),
    ("GET", bad("MethodNotAllowed", 405), {}, {"method": "GET"}),
    ("PUT", bad("MethodNotAllowed", 405), {}, {"method": "PUT"}),
    ("DELETE", bad("MethodNotAllowed", 405), {}, {"method": "DELETE"}),
    ("another path", bad("BadPath", 404), {}, {"path": "/3/devices/" + DEVICE}),
    ("an older version", bad("BadPath", 404), {}, {"path": "/2/device/" + DEVICE}),
    ("a path too long", bad("BadPath", 404), {}, {"path": f"/3/device/{DEVICE}/x"}),
    ("the root", bad("BadPath", 404), {}, {"path": "/"}),
    ("no device token", bad("MissingDeviceToken"), {}, {"path": "/3/device/"}),
    ("no device token, no slash", bad("MissingDeviceToken"), {}, {"path": "/3/device"}),
    ("a token that is not hexadecimal", bad("BadDeviceToken"), {}, {"path": "/3/device/" + "zz" * 32}),
    ("a token of odd length", bad("BadDeviceToken"), {}, {"path": "/3/device/" + DEVICE[:-1]}),
    ("a token too short", bad("BadDeviceToken"), {}, {"path": "/3/device/00fc13"}),
    ("a token too long", bad("BadDeviceToken"), {}, {"path": "/3/device/" + "00" * 129}),
    ("a long token", OK, {}, {"path": "/3/device/" + "00" * 128}),
    ("a token in capitals", OK, {}, {"path": "/3/device/" + DEVICE.upper()}),
    ("a device that is gone", bad("Unregistered", 410), {}, {"path": "/3/device/dead" + DEVICE}),
    ("no topic", bad("MissingTopic"), {"apns-topic": None}, {}),
    ("a topic with a space", bad("BadTopic"), {"apns-topic": "com example"}, {}),
    ("a topic too long", bad("BadTopic"), {"apns-topic": "a" * 256}, {}),
    ("no id", OK, {"apns-id": None}, {}),
    ("an id that is no UUID", bad("BadMessageId"), {"apns-id": "42"}, {}),
    ("an id without dashes", bad("BadMessageId"), {"apns-id": uuid.uuid4().hex}, {}),
    ("priority 10", OK, {"apns-priority": "10"}, {}),
    ("priority 5", OK, {"apns-priority": "5"}, {}),
    ("priority 1", OK, {"apns-priority": "1"}, {}),
    ("priority 3", bad("BadPriority"), {"apns-priority": "3"}, {}),
    ("priority 010", bad("BadPriority"), {"apns-priority": "010"}, {}),
    ("a priority in words", bad("BadPriority"), {"apns-priority": "high"}, {}),
    ("expiration 0", OK, {"apns-expiration": "0"}, {}),
    ("an expiration", OK, {"apns-expiration": str(int(time.time()) + 3600)}, {}),
    ("an expiration in words", bad("BadExpirationDate"), {"apns-expiration": "soon"}, {}),
    ("an expiration below 0", bad("BadExpirationDate"), {"apns-expiration": "-1"}, {}),
    ("an expiration with a fraction", bad("BadExpirationDate"), {"apns-expiration": "1.5"}, {}),
    ("a collapse id of 64 bytes", OK, {"apns-collapse-id": "c" * 64}, {}),
    ("a collapse id of 65 bytes", bad("BadCollapseId"), {"apns-collapse-id": "c" * 65}, {}),
    *[(f"{name} twice", bad("DuplicateHeaders"), {}, {"repeat": name}) for name in [
        "authorization", "apns-id", "apns-topic", "apns-push-type"]],
    *[(f"{name} twice", bad("DuplicateHeaders"), {name: value}, {"repeat": name}) for name, value in [
        ("apns-priority", "10"), ("apns-expiration", "0"), ("apns-collapse-id", "c")]],
    ("a header of no concern twice", OK, {"x-other": "1"}, {"repeat": "x-other"}),
    ("no body", bad("PayloadEmpty"), {}, {"payload": ""}),
    ("an empty object", bad("PayloadEmpty"), {}, {"payload": {}}),
    ("no JSON", bad("BadRequestPayload"), {}, {"payload": "Hello"}),
    ("JSON and more", bad("BadRequestPayload"), {}, {"payload": '{"aps":{"badge":1}} x'}),
    ("a list", bad("BadRequestPayload"), {}, {"payload": "[]"}),
    ("a key twice", bad("BadRequestPayload"), {}, {"payload": '{"aps":{"badge":1},"aps":{"badge":2}}'}),
    ("bytes that are no UTF-8", bad("BadRequestPayload"), {}, {"payload": b'{"aps":{"alert":"\xff"}}'}),
    ("4096 bytes", OK, {}, {"payload": of_size(4096)}),
    ("4097 bytes", bad("PayloadTooLarge", 413), {}, {"payload": of_size(4097)}),
]

PAYLOAD_ROWS = [
    ("a badge alone", OK, aps(badge=0)),
    ("a sound alone", OK, aps(sound="default")),
    ("an empty aps", bad("PayloadEmpty"), aps()),
    ("no aps", bad("PayloadEmpty"), {"k": 1}),
    ("aps is no object", bad("BadRequestPayload"), {"aps": 1}),
    ("an alert that is a number", bad("BadRequestPayload"), aps(alert=7)),
    ("a title that is a number", bad("BadRequestPayload"), aps(alert={"title": 7})),
    ("an empty alert with a badge", bad("BadRequestPayload"), aps(alert={}, badge=1)),
    ("a badge below 0", bad("BadRequestPayload"), aps(badge=-1)),
    ("a badge with a fraction", bad("BadRequestPayload"), aps(badge=1.5)),
    ("a badge in words", bad("BadRequestPayload"), aps(badge="1")),
    ("a critical sound", OK, aps(sound={"critical": 1, "name": "a.caf", "volume": 0.5})),
    ("a sound too loud", bad("BadRequestPayload"), aps(sound={"critical": 1, "volume": 1.1})),
    ("a sound that is a number", bad("BadRequestPayload"), aps(sound=1)),
    ("a title by its key", OK, aps(alert={"title-loc-key": "T", "title-loc-args": ["a"]})),
    ("a title and its key", bad("BadRequestPayload"), aps(alert={"title": "t", "title-loc-key": "T"})),
    ("arguments without their key", bad("BadRequestPayload"), aps(alert={"loc-args": ["a"]})),
    ("arguments that are numbers", bad("BadRequestPayload"), aps(alert={"loc-key": "K", "loc-args": [1]})),
    ("a known interruption level", OK, aps(alert="x", interruption_level="time-sensitive")),
    ("an unknown interruption level", bad("BadRequestPayload"), aps(alert="x", interruption_level="loud")),
    ("a relevance score of 2", bad("BadRequestPayload"), aps(alert="x", relevance_score=2)),
    ("mutable-content 2", bad("BadRequestPayload"), aps(alert="x", mutable_content=2)),
    ("a thread that is a number", bad("BadRequestPayload"), aps(alert="x", thread_id=1)),
    ("url-args that are no list", bad("BadRequestPayload"), aps(alert="x", url_args="a")),
    ("a key that nobody knows", OK, aps(alert="x", brand_new=[1])),
]

# push type, topic, headers, payload
TYPE_ROWS = [
    ("background", OK, "background", APP, {"apns-priority": "5"}, SILENT),
    ("background at 10", bad("BadPriority"), "background", APP, {"apns-priority": "10"}, SILENT),
    ("background without priority", bad("BadPriority"), "background", APP, {}, SILENT),
    ("background with an alert", bad("BadRequestPayload"), "background", APP, {"apns-priority": "5"},
     aps(content_available=1, alert="x")),
    ("background without content-available", bad("BadRequestPayload"), "background", APP, {"apns-priority": "5"},
     {"k": 1}),
    ("an unknown push type", bad("InvalidPushType"), "banner", APP, {}, ALERT),
    ("alert to a suffix", bad("InvalidPushType"), "alert", APP + ".voip", {}, ALERT),
    ("voip", OK, "voip", APP + ".voip", {}, {"caller": "x"}),
    ("voip without its suffix", bad("InvalidPushType"), "voip", APP, {}, {"caller": "x"}),
    ("voip, 5120 bytes", OK, "voip", APP + ".voip", {}, of_size(5120)),
    ("voip, 5121 bytes", bad("PayloadTooLarge", 413), "voip", APP + ".voip", {}, of_size(5121)),
    ("complication", OK, "complication", APP + ".complication", {}, {"k": 1}),
    ("complication, 4097 bytes", bad("PayloadTooLarge", 413), "complication", APP + ".complication", {}, of_size(4097)),
    ("fileprovider", OK, "fileprovider", APP + ".pushkit.fileprovider", {}, {"container-identifier": "c"}),
    ("fileprovider without a container", bad("BadRequestPayload"), "fileprovider", APP + ".pushkit.fileprovider", {},
     {"domain": "d"}),
    ("location", OK, "location", APP + ".location-query", {}, aps(x=1)),
    ("location at 1", bad("BadPriority"), "location", APP + ".location-query", {"apns-priority": "1"}, aps(x=1)),
    ("mdm with a token", bad("Forbidden", 403), "mdm", "com.apple.mgmt.x", {}, {"mdm": "magic"}),
    ("pushtotalk", OK, "pushtotalk", APP + ".voip-ptt", {"apns-expiration": "0"}, {"k": 1}),
    ("pushtotalk that is stored", bad("BadExpirationDate"), "pushtotalk", APP + ".voip-ptt",
     {"apns-expiration": "1999999999"}, {"k": 1}),
    ("pushtotalk at 5", bad("BadPriority"), "pushtotalk", APP + ".voip-ptt", {"apns-priority": "5"}, {"k": 1}),
    ("widgets", OK, "widgets", APP + ".push-type.widgets", {}, CHANGED),
    ("widgets without content-changed", bad("BadRequestPayload"), "widgets", APP + ".push-type.widgets", {}, ALERT),
    ("controls", OK, "controls", APP + ".push-type.controls", {}, CHANGED),
    ("controls to the widgets' topic", bad("InvalidPushType"), "controls", APP + ".push-type.widgets", {}, CHANGED),
    ("accessory", OK, "accessory", ACCESSORY, {}, RESPONSE),
    ("accessory at 1, not stored", OK, "accessory", ACCESSORY, {"apns-priority": "1", "apns-expiration": "0"}, RESPONSE),
    ("accessory to the app", bad("InvalidPushType"), "accessory", APP, {}, RESPONSE),
    ("accessory with a collapse id", bad("BadCollapseId"), "accessory", ACCESSORY, {"apns-collapse-id": "c"}, RESPONSE),
    ("accessory, an empty object", bad("PayloadEmpty"), "accessory", ACCESSORY, {}, {}),
    *[(f"accessory: {name}", bad("BadRequestPayload"), "accessory", ACCESSORY, {}, {"aps": {**RESPONSE["aps"], **change}})
      for name, change in [
          ("data in base64url", {"encryptedData": "PoX_-w=="}), ("data without padding", {"encryptedData": "PoX/+w"}),
          ("no session", {"sessionIdentifier": ""}), ("a key id that is no base64", {"keyID": "?"}),
          ("an index that is a number", {"messageIndex": 7}), ("an index in words", {"messageIndex": "seven"}),
      ]],
    *[(f"accessory without {key}", bad("BadRequestPayload"), "accessory", ACCESSORY, {},
       {"aps": {name: value for name, value in RESPONSE["aps"].items() if name != key}}) for key in RESPONSE["aps"]],
    ("a Wallet pass", OK, "alert", "pass.com.example", {}, {"aps": {}}),
    ("no push type", OK, None, APP, {}, SILENT),
    ("activity: update", OK, "liveactivity", ACTIVITY, {}, UPDATE),
    ("activity: start", OK, "liveactivity", ACTIVITY, {}, START),
    ("activity: end", OK, "liveactivity", ACTIVITY, {}, changed(UPDATE, event="end", content_state=None)),
    ("activity at 1", bad("BadPriority"), "liveactivity", ACTIVITY, {"apns-priority": "1"}, UPDATE),
    *[(f"activity: {name}", bad("BadRequestPayload"), "liveactivity", ACTIVITY, {}, payload) for name, payload in [
        ("no timestamp", changed(UPDATE, timestamp=None)),
        ("timestamp in milliseconds", changed(UPDATE, timestamp=1_795_266_000_000)),
        ("unknown event", changed(UPDATE, event="pause")),
        ("update without state", changed(UPDATE, content_state=None)),
        ("dismissal date on an update", changed(UPDATE, dismissal_date=1)),
        ("stale date on an end", changed(UPDATE, event="end", stale_date=1)),
        ("attributes on an update", changed(UPDATE, attributes={})),
        ("start without alert", changed(START, alert=None)),
        ("start without attributes", changed(START, attributes=None)),
        ("start with token and channel", changed(START, input_push_token=1, input_push_channel="c")),
    ]],
]


def token_rows(simulator):
    """name, answer, the authorization: each on a connection of its own."""
    credential = simulator.ready["credential"]
    key, team, key_id = simulator.key(), credential["team_id"], credential["key_id"]
    now = int(time.time())
    stranger = ec.generate_private_key(ec.SECP256R1())
    longer = ec.generate_private_key(ec.SECP384R1())

    def token(claims=None, header=None, key=key, algorithm="ES256"):
        all_claims = {"iss": team, "iat": now, **(claims or {})}
        return jwt.encode(
            {name: value for name, value in all_claims.items() if value is not None}, key, algorithm=algorithm,
            headers={"kid": key_id} if header is None else header)

    good = token()
    invalid = bad("InvalidProviderToken", 403)
    return [
        ("no authorization", bad("MissingProviderToken", 403), None),
        ("an empty one", bad("MissingProviderToken", 403), ""),
        ("the word alone", bad("MissingProviderToken", 403), "bearer"),
        ("another scheme", invalid, f"basic {good}"),
        ("Bearer", OK, f"Bearer {good}"),
        ("three words", invalid, f"bearer {good} x"),
        ("nonsense", invalid, "bearer a.b.c"),
        ("two parts", invalid, "bearer " + good.rsplit(".", 1)[0]),
        ("padded", invalid, f"bearer {good}="),
        ("one bit of the signature wrong", invalid, f"bearer {good[:-9]}{'A' if good[-9] != 'A' else 'B'}{good[-8:]}"),
        ("signed by another key", invalid, "bearer " + token(key=stranger)),
        ("ES384", invalid, "bearer " + token(key=longer, algorithm="ES384")),
        ("HS256", invalid, "bearer " + token(key="secret" * 8, algorithm="HS256")),
        ("no algorithm", invalid, "bearer " + token(key=None, algorithm="none")),
        ("no kid", invalid, "bearer " + token(header={})),
        ("an unknown kid", invalid, "bearer " + token(header={"kid": "NOBODY0001"})),
        ("no team", invalid, "bearer " + token({"iss": None})),
        ("another team", invalid, "bearer " + token({"iss": "OTHERTEAM1"})),
        ("no iat", invalid, "bearer " + token({"iat": None})),
        ("an iat in words", invalid, "bearer " + token({"iat": str(now)})),
        ("an iat in milliseconds", invalid, "bearer " + token({"iat": now * 1000})),
        ("two minutes ahead", invalid, "bearer " + token({"iat": now + 120})),
        ("half a minute ahead", OK, "bearer " + token({"iat": now + 30})),
        ("nearly an hour old", OK, "bearer " + token({"iat": now - 3500})),
        ("more than an hour old", bad("ExpiredProviderToken", 403), "bearer " + token({"iat": now - 3700})),
    ]


def broadcast_rows(stored, unstored):
    """name, answer, headers, what else."""
    soon = str(int(time.time()) + 3600)
    late = str(int(time.time()) + 9 * 3600)
    return [
        ("to a channel without storage", OK, {}, {}),
        ("stored for an hour", OK, {"apns-channel-id": stored, "apns-expiration": soon}, {}),
        ("stored for nine", bad("BadExpirationDate"), {"apns-channel-id": stored, "apns-expiration": late}, {}),
        ("stored where nothing is", bad("BadExpirationDate"), {"apns-expiration": soon}, {}),
        ("no expiration", bad("BadExpirationDate"), {"apns-expiration": None}, {}),
        ("no channel", bad("MissingChannelId"), {"apns-channel-id": None}, {}),
        ("a channel that is no base64", bad("BadChannelId"), {"apns-channel-id": "?"}, {}),
        ("an unknown channel", bad("ChannelNotRegistered"), {"apns-channel-id": "AAAAAAAAAAAAAAAAAAAAAA=="}, {}),
        ("no push type", bad("MissingPushType"), {"apns-push-type": None}, {}),
        ("an alert", bad("InvalidPushType"), {"apns-push-type": "alert"}, {}),
        ("priority 1", bad("BadPriority"), {"apns-priority": "1"}, {}),
        ("a topic", bad("BadRequestParams"), {"apns-topic": APP}, {}),
        ("a request id that is no UUID", bad("BadMessageId"), {"apns-request-id": "1"}, {}),
        ("a channel twice", bad("DuplicateHeaders"), {}, {"repeat": "apns-channel-id"}),
        ("GET", bad("MethodNotAllowed", 405), {}, {"method": "GET"}),
        ("another path", bad("BadPath", 404), {}, {"path": f"/4/broadcast/apps/{APP}"}),
        ("an app with a suffix", bad("BadRequestParams"), {}, {"path": f"/4/broadcasts/apps/{ACTIVITY}"}),
        ("no body", bad("PayloadEmpty"), {}, {"payload": ""}),
        ("a start", bad("BadRequestPayload"), {}, {"payload": START}),
        ("more than 5120 bytes", bad("PayloadTooLarge", 413), {}, {"payload": of_size(5121)}),
        ("no token", bad("MissingProviderToken", 403), {"authorization": None}, {}),
    ]


CHANNELS = f"/1/apps/{APP}/channels"
NEW_CHANNEL = {"message-storage-policy": 0, "push-type": "LiveActivity"}
CHANNEL_ROWS = [
    ("another path", bad("BadPath", 404), {}, {"path": f"/1/apps/{APP}/channel"}),
    ("another version", bad("BadPath", 404), {}, {"path": f"/2/apps/{APP}/channels"}),
    ("a method", bad("MethodNotAllowed", 405), {}, {"method": "PUT"}),
    ("posting to the list", bad("MethodNotAllowed", 405), {}, {"path": f"/1/apps/{APP}/all-channels"}),
    ("an app with a suffix", bad("BadRequestParams"), {}, {"path": f"/1/apps/{ACTIVITY}/channels"}),
    ("no token", bad("MissingProviderToken", 403), {"authorization": None}, {}),
    ("a request id that is no UUID", bad("BadMessageId"), {"apns-request-id": "1"}, {}),
    ("a request id twice", bad("DuplicateHeaders"), {}, {"repeat": "apns-request-id"}),
    ("no JSON", bad("BadRequestPayload"), {}, {"payload": "x"}),
    ("no push type", bad("MissingPushType"), {}, {"payload": {"message-storage-policy": 0}}),
    ("another push type", bad("InvalidPushType"), {}, {"payload": {**NEW_CHANNEL, "push-type": "Alert"}}),
    ("no policy", bad("MissingChannelQueueSize"), {}, {"payload": {"push-type": "LiveActivity"}}),
    ("policy 2", bad("BadRequestPayload"), {}, {"payload": {**NEW_CHANNEL, "message-storage-policy": 2}}),
    ("reading none", bad("MissingChannelId"), {}, {"method": "GET", "payload": ""}),
    ("reading no base64", bad("BadChannelId"), {"apns-channel-id": "?"}, {"method": "GET", "payload": ""}),
    ("reading an unknown one", bad("ChannelNotRegistered", 404), {"apns-channel-id": "AAAAAAAAAAAAAAAAAAAAAA=="},
     {"method": "GET", "payload": ""}),
    ("deleting none", bad("MissingChannelId"), {}, {"method": "DELETE", "payload": ""}),
    ("deleting an unknown one", bad("ChannelNotRegistered", 404), {"apns-channel-id": "AAAAAAAAAAAAAAAAAAAAAA=="},
     {"method": "DELETE", "payload": ""}),
]


def devices(simulator, trust):
    with Caller(simulator, trust) as caller:
        answer = caller.row("HTTP/2 in the sandbox", OK)
        check("it is HTTP/2", answer.http_version == "HTTP/2")
        check("with a unique id", len(answer.headers["apns-unique-id"]) == 36)
        check("and an empty body", answer.content == b"")
        given = str(uuid.uuid4())
        check("the id comes back", caller.send({"apns-id": given}).headers["apns-id"] == given)
        check("and is made where none was given", len(caller.send({"apns-id": None}).headers["apns-id"]) == 36)
        for name, expected, headers, other in REQUEST_ROWS:
            caller.row(name, expected, headers, **other)
        for name, expected, payload in PAYLOAD_ROWS:
            caller.row(name, expected, payload=payload)
        for name, expected, kind, topic, headers, payload in TYPE_ROWS:
            caller.row(name, expected, {"apns-push-type": kind, "apns-topic": topic, **headers}, payload=payload)
        gone = caller.send({}, path=f"/3/device/dead{DEVICE}").json()
        check("410 with its time in milliseconds", gone["timestamp"] > 1_600_000_000_000, gone)


def provider_tokens(simulator, trust):
    for name, expected, authorization in token_rows(simulator):
        with Caller(simulator, trust) as caller:
            caller.row(f"token: {name}", expected, {"authorization": authorization})
    with Caller(simulator, trust) as caller, Caller(simulator, trust) as other:
        second = {"authorization": f"bearer {simulator.token(1)}"}
        caller.row("token: the first of a connection", OK)
        caller.row("token: a second one at once", bad("TooManyProviderTokenUpdates", 429), second)
        caller.row("token: the first one again", OK)
        other.row("token: the second one on a connection of its own", OK, second)


def channels_and_broadcasts(simulator, trust):
    with Caller(simulator, trust, simulator.ready["manage_port"]) as manager:
        base = {"apns-request-id": str(uuid.uuid4())}

        def manage(name, expected, headers=None, **other):
            return manager.row(f"channel: {name}", expected, headers,
                               **{"path": CHANNELS, "payload": NEW_CHANNEL, "base": base, **other})

        unstored = manage("created", (201, None)).headers["apns-channel-id"]
        stored = manage("created with storage", (201, None), payload={**NEW_CHANNEL, "message-storage-policy": 1}).headers[
            "apns-channel-id"]
        read = manage("read", OK, {"apns-channel-id": unstored}, method="GET", payload="")
        check("as it was created", read.json() == NEW_CHANNEL, read.text)
        listed = manage("listed", OK, method="GET", payload="", path=f"/1/apps/{APP}/all-channels")
        check("all of them", sorted(listed.json()["channels"]) == sorted([stored, unstored]), listed.text)
        check("the request id comes back", listed.headers["apns-request-id"] == base["apns-request-id"])
        for name, expected, headers, other in CHANNEL_ROWS:
            manage(name, expected, headers, **other)
        with Caller(simulator, trust) as caller:
            send = {"apns-push-type": "liveactivity", "apns-channel-id": unstored, "apns-expiration": "0",
                    "apns-priority": "10", "apns-request-id": str(uuid.uuid4())}
            for name, expected, headers, other in broadcast_rows(stored, unstored):
                caller.row(f"broadcast: {name}", expected, headers,
                           **{"path": f"/4/broadcasts/apps/{APP}", "payload": UPDATE, "base": send, **other})
            simulator.control("POST", "/apps", f"{APP} broadcast=off")
            caller.row("broadcast: not enabled", bad("FeatureNotEnabled"), path=f"/4/broadcasts/apps/{APP}", payload=UPDATE,
                       base=send)
            manage("not enabled", bad("FeatureNotEnabled"))
            simulator.control("POST", "/apps", f"{APP} broadcast=on")
            manage("deleted", (204, None), {"apns-channel-id": unstored}, method="DELETE", payload="")
            manage("deleted twice", bad("ChannelNotRegistered", 404), {"apns-channel-id": unstored}, method="DELETE",
                   payload="")
            caller.row("broadcast: to a channel that was deleted", bad("ChannelNotRegistered"), path=f"/4/broadcasts/apps/{APP}",
                       payload=UPDATE, base=send)


def keys_of_a_connection():
    """A simulator that accepts every key: which of them may share a connection."""
    key = ec.generate_private_key(ec.SECP256R1())

    def bearer(team, key_id):
        claims = {"iss": team, "iat": int(time.time())}
        return {"authorization": "bearer " + jwt.encode(claims, key, algorithm="ES256", headers={"kid": key_id})}

    with Simulator("--any-key", "--device-limit", "20") as simulator:
        with Caller(simulator, simulator.trust()) as caller:
            caller.row("any key", OK, bearer("TEAM000001", "KEY0000001"))
            caller.row("another key on the connection", bad("UnrelatedKeyIdInToken", 403), bearer("TEAM000001", "KEY0000002"))
            caller.row("another team on the connection", bad("InvalidProviderToken", 403), bearer("TEAM000002", "KEY0000003"))
            simulator.control("POST", "/keys", f"KEY0000001 team=TEAM000001 topics={APP} related=KEY0000002")
            caller.row("a related key on the connection", OK, bearer("TEAM000001", "KEY0000002"))
        with Caller(simulator, simulator.trust()) as caller:
            bound = bearer("TEAM000001", "KEY0000001")
            caller.row("a topic-bound key", OK, bound)
            caller.row("a topic-bound key, its topic with a suffix", OK,
                       {**bound, "apns-topic": APP + ".voip", "apns-push-type": "voip"})
            caller.row("a topic-bound key, another topic", bad("TopicDisallowed"),
                       {**bound, "apns-topic": "com.example.other"})
            simulator.control("POST", "/keys", "KEY0000001 environment=sandbox")
            caller.row("a key of the sandbox", bad("BadEnvironmentKeyIdInToken", 403), bound)
        with Caller(simulator, simulator.trust()) as caller:
            first = bearer("TEAM000001", "KEY0000002")
            caller.row("the other key on another connection", OK, first)
            # Twenty in each second of the clock: a hundred in a row are more than that.
            device = {"path": "/3/device/" + "77" * 32}
            answers = {caller.send(first, **device).status_code for _ in range(100)}
            rule_case("one device too often", 429 in answers and 200 in answers, answers)


def client_certificates():
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(certificates.Folder(
            topics=[APP, APP + ".voip", APP + ".pushkit.fileprovider", APP + ".location-query", ACTIVITY, ACCESSORY]))
        simulator = stack.enter_context(Simulator(
            "--certificate", made.path("server.pem"), "--key", made.path("server-key.pem"),
            "--client-ca", made.path("ca.pem")))

        def trust(client):
            context = ssl.create_default_context(cafile=made.path("ca.pem"))
            context.load_cert_chain(made.path(f"{client}.pem"), made.path(f"{client}-key.pem"))
            return context

        with Caller(simulator, trust("app")) as caller:
            caller.token = None
            caller.row("certificate: its topic", OK)
            caller.row("certificate: another topic", bad("TopicDisallowed"), {"apns-topic": "com.example.other"})
            caller.row("certificate: several topics and none named", bad("MissingTopic"), {"apns-topic": None})
            caller.row("certificate: voip", OK, {"apns-topic": APP + ".voip", "apns-push-type": "voip"})
            for kind, topic in [("fileprovider", APP + ".pushkit.fileprovider"), ("location", APP + ".location-query"),
                                ("liveactivity", ACTIVITY), ("accessory", ACCESSORY)]:
                caller.row(f"certificate: {kind} wants a token", bad("Forbidden", 403),
                           {"apns-topic": topic, "apns-push-type": kind}, payload=UPDATE)
        with Caller(simulator, trust("mdm")) as caller:
            caller.token = None
            mdm = {"apns-topic": certificates.MDM_TOPIC, "apns-push-type": "mdm"}
            caller.row("certificate: mdm", OK, mdm, payload={"mdm": "magic"})
            caller.row("certificate: mdm with aps", bad("BadRequestPayload"), mdm, payload={"mdm": "magic", **ALERT})
            caller.row("certificate: the subject's topic goes unsaid", OK, {**mdm, "apns-topic": None}, payload={"mdm": "magic"})


def main():
    with Simulator("--sandbox") as simulator:
        trust = simulator.trust()
        devices(simulator, trust)
        provider_tokens(simulator, trust)
        channels_and_broadcasts(simulator, trust)
        counters = simulator.control("GET", "/counters")
        check("no client broke a limit", counters["streams_over_limit"] == 0, counters)
    keys_of_a_connection()
    client_certificates()
    finish()


main()
