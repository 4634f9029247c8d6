"""PyPI's aioapns sends through the simulator: a client that knows nothing of it but an address and an authority."""

import asyncio
import logging
import ssl

import aioapns
from aioapns.connection import APNsProductionClientProtocol
from simulator import APP, DEVICE, Simulator, check, finish


def make_client(simulator):
    # aioapns has Apple's address built in.
    APNsProductionClientProtocol.APNS_SERVER = "localhost"
    APNsProductionClientProtocol.APNS_PORT = simulator.port
    trust = ssl.create_default_context(cafile=simulator.authority)
    # It offers no protocol by itself, and a strict server speaks HTTP/2 only to who asks for it.
    trust.set_alpn_protocols(["h2"])
    credential = simulator.ready["credential"]
    with open(credential["key_file"]) as file:
        key = file.read()
    return aioapns.APNs(
        key=key, key_id=credential["key_id"], team_id=credential["team_id"], topic=APP,
        # Each of its connections signs a token of its own, which is one too many for a strict server.
        ssl_context=trust, max_connections=1)


async def main():
    with Simulator() as simulator:
        client = make_client(simulator)
        accepted = await client.send_notification(
            aioapns.NotificationRequest(device_token=DEVICE, message={"aps": {"alert": "Hello"}}))
        check("accepted", accepted.is_successful, accepted.description)
        gone = await client.send_notification(
            aioapns.NotificationRequest(device_token="dead" + DEVICE, message={"aps": {"alert": "Hello"}}))
        check("unregistered", (gone.status, gone.description) == ("410", "Unregistered"), gone.description)
        many = await asyncio.gather(*[
            client.send_notification(
                aioapns.NotificationRequest(device_token=DEVICE, message={"aps": {"badge": number}}))
            for number in range(200)])
        check("two hundred at once", all(result.is_successful for result in many))
        counters = simulator.control("GET", "/counters")
        check("the ledger agrees", counters["accepted"] == 201 and counters["streams_over_limit"] == 0, counters)
    finish()


# It logs every turn that it waits for a free stream.
logging.getLogger("aioapns").setLevel(logging.CRITICAL)
asyncio.run(main())
