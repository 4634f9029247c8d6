"""PyPI's aioapns sends to the simulator: a client that gets only its address and its CA."""

import asyncio
import logging
import ssl

import aioapns
from aioapns.connection import APNsProductionClientProtocol
from simulator import APP, DEVICE, Simulator, check, finish, rule_case


def make_client(simulator, connections):
    # aioapns has Apple's address built in.
    APNsProductionClientProtocol.APNS_SERVER = "localhost"
    APNsProductionClientProtocol.APNS_PORT = simulator.port
    trust = ssl.create_default_context(cafile=simulator.authority)
    # It offers no protocol by itself, and a strict server speaks HTTP/2 only if the client offers it.
    trust.set_alpn_protocols(["h2"])
    credential = simulator.ready["credential"]
    with open(credential["key_file"]) as file:
        key = file.read()
    return aioapns.APNs(
        key=key, key_id=credential["key_id"], team_id=credential["team_id"], topic=APP, ssl_context=trust,
        max_connections=connections)


def request(device, **aps):
    return aioapns.NotificationRequest(device_token=device, message={"aps": aps})


async def many_at_once(simulator):
    client = make_client(simulator, connections=1)
    accepted = await client.send_notification(request(DEVICE, alert="Hello"))
    rule_case("accepted", accepted.is_successful, accepted.description)
    many = await asyncio.gather(*[client.send_notification(request(DEVICE, badge=number)) for number in range(200)])
    rule_case("two hundred at once", all(result.is_successful for result in many))
    counters = simulator.control("GET", "/counters")
    check("the ledger agrees", counters["accepted"] == 201 and counters["streams_over_limit"] == 0, counters)
    for device, status, reason in [("dead", "410", "Unregistered"), ("bad1", "400", "DeviceTokenNotForTopic"),
                                   ("7007", "429", "TooManyRequests"), ("5031", "503", "Shutdown")]:
        answer = await client.send_notification(request(device + DEVICE, alert="Hello"))
        rule_case(reason, (answer.status, answer.description) == (status, reason), answer.description)


async def several_connections(scope, expected):
    """Each of its connections signs a token of its own."""
    with Simulator("--token-scope", scope) as simulator:
        answers = []
        for _ in range(3):
            client = make_client(simulator, connections=1)
            answers.append((await client.send_notification(request(DEVICE, alert="Hello"))).description)
        rule_case(f"--token-scope {scope}", answers == expected, answers)


async def main():
    with Simulator() as simulator:
        await many_at_once(simulator)
    await several_connections("connection", [None, None, None])
    await several_connections("key", [None, "TooManyProviderTokenUpdates", "TooManyProviderTokenUpdates"])
    finish()


# It logs every turn that it waits for a free stream.
logging.getLogger("aioapns").setLevel(logging.CRITICAL)
asyncio.run(main())
