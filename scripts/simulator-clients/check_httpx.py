"""The simulator's rules, asked by httpx over HTTP/2."""

import json
import ssl
import uuid

import httpx
from simulator import APP, DEVICE, Simulator, check, finish

ALERT = json.dumps({"aps": {"alert": "Hello"}})


def main():
    with Simulator("--sandbox") as simulator:
        trust = ssl.create_default_context(cafile=simulator.authority)
        token = simulator.token()
        with httpx.Client(http2=True, verify=trust, base_url=f"https://localhost:{simulator.port}", timeout=5) as client:

            def send(changes=None, path=f"/3/device/{DEVICE}", payload=ALERT, method="POST"):
                headers = {
                    "authorization": f"bearer {token}", "apns-topic": APP, "apns-push-type": "alert",
                    "apns-id": str(uuid.uuid4()),
                }
                for name, value in (changes or {}).items():
                    if value is None:
                        headers.pop(name)
                    else:
                        headers[name] = value
                return client.request(method, path, headers=headers, content=payload)

            answer = send()
            check("accepted over HTTP/2", answer.status_code == 200 and answer.http_version == "HTTP/2")
            check("unique id in the sandbox", len(answer.headers["apns-unique-id"]) == 36)
            check("empty body", answer.content == b"")
            long_voip = json.dumps({"text": "x" * 5200})
            rows = [
                ("no token", {"authorization": None}, {}, 403, "MissingProviderToken"),
                ("nonsense token", {"authorization": "bearer a.b.c"}, {}, 403, "InvalidProviderToken"),
                ("old token", {"authorization": f"bearer {simulator.token(4000)}"}, {}, 403, "ExpiredProviderToken"),
                ("second token at once", {"authorization": f"bearer {simulator.token(1)}"}, {}, 429,
                 "TooManyProviderTokenUpdates"),
                ("no topic", {"apns-topic": None}, {}, 400, "MissingTopic"),
                ("bad id", {"apns-id": "x"}, {}, 400, "BadMessageId"),
                ("bad priority", {"apns-priority": "3"}, {}, 400, "BadPriority"),
                ("bad expiration", {"apns-expiration": "soon"}, {}, 400, "BadExpirationDate"),
                ("long collapse id", {"apns-collapse-id": "c" * 65}, {}, 400, "BadCollapseId"),
                ("bad push type", {"apns-push-type": "banner"}, {}, 400, "InvalidPushType"),
                ("GET", {}, {"method": "GET"}, 405, "MethodNotAllowed"),
                ("bad path", {}, {"path": "/3/devices/x"}, 404, "BadPath"),
                ("bad token", {}, {"path": "/3/device/zz"}, 400, "BadDeviceToken"),
                ("unregistered", {}, {"path": f"/3/device/dead{DEVICE}"}, 410, "Unregistered"),
                ("empty", {}, {"payload": ""}, 400, "PayloadEmpty"),
                ("too large", {}, {"payload": json.dumps({"aps": {"alert": "x" * 4100}})}, 413, "PayloadTooLarge"),
                ("voip too large", {"apns-push-type": "voip", "apns-topic": APP + ".voip"}, {"payload": long_voip}, 413,
                 "PayloadTooLarge"),
            ]
            for name, changes, other, status, reason in rows:
                answer = send(changes, **other)
                told = answer.json() if answer.content else {}
                check(name, (answer.status_code, told.get("reason")) == (status, reason), f"{answer.status_code} {told}")
            check("410 with a time", send(path=f"/3/device/dead{DEVICE}").json()["timestamp"] > 1_600_000_000_000)

            simulator.control("POST", "/faults", "times=1,status=500,reason=InternalServerError,body=split:3")
            check("body in many frames", send().json() == {"reason": "InternalServerError"})
            simulator.control("POST", "/faults", "times=1,status=503,reason=X,body=missing")
            answer = send()
            check("body missing", answer.status_code == 503 and answer.content == b"")
            simulator.control("DELETE", "/faults")
            try:
                send(path=f"/3/device/d0a0{DEVICE}")
                check("dropped after processing", False)
            except httpx.TransportError:
                check("dropped after processing", True)
            ledger = simulator.control("GET", "/ledger")
            check("the ledger has it", ledger["requests"][-1]["ending"] == "dropped")
            check("no id twice", ledger["counters"]["duplicate_ids"] == 0)

        with httpx.Client(
            http2=True, verify=trust, base_url=f"https://localhost:{simulator.ready['manage_port']}", timeout=5) as manager:
            headers = {"authorization": f"bearer {token}"}
            body = {"message-storage-policy": 0, "push-type": "LiveActivity"}
            created = manager.post(f"/1/apps/{APP}/channels", headers=headers, json=body)
            channel = created.headers.get("apns-channel-id")
            check("channel created", created.status_code == 201 and channel)
            headers["apns-channel-id"] = channel
            check("channel read", manager.get(f"/1/apps/{APP}/channels", headers=headers).json() == body)
            listed = manager.get(f"/1/apps/{APP}/all-channels", headers=headers).json()
            check("channels listed", listed == {"channels": [channel]})
            check("channel deleted", manager.delete(f"/1/apps/{APP}/channels", headers=headers).status_code == 204)
    finish()


main()
