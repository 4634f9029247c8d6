"""The simulator's frames, seen by the Python h2 library: limits, GOAWAY, resets, PINGs, windows, and a client that breaks
the stream limit."""

import socket
import time

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
from simulator import APP, DEVICE, Simulator, check, finish

PAYLOAD = b'{"aps":{"alert":"Hello"}}'


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()
        self.events = []
        self.is_closed = False
        self.received = b""
        # Frames that came after GOAWAY, which h2 takes for the end: (type, stream).
        self.later_frames = []

    def receive(self, data):
        """Gives h2 one frame after the other."""
        self.received += data
        while len(self.received) >= 9:
            size = 9 + int.from_bytes(self.received[:3], "big")
            if len(self.received) < size:
                break
            frame, self.received = self.received[:size], self.received[size:]
            if any(isinstance(event, h2.events.ConnectionTerminated) for event in self.events):
                self.later_frames.append((frame[3], int.from_bytes(frame[5:9], "big")))
            else:
                self.events += self.h2.receive_data(frame)

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def post(self, token=DEVICE, payload=PAYLOAD, extra=()):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [
            (":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", f"/3/device/{token}"),
            ("apns-topic", APP), ("apns-push-type", "alert"), *extra])
        self.h2.send_data(stream, payload, end_stream=True)
        self.flush()
        return stream

    def until(self, kind, seconds=5, **fields):
        """Reads until such an event has come; None where it has not in time."""
        deadline = time.monotonic() + seconds
        while True:
            for event in self.events:
                if isinstance(event, kind) and all(getattr(event, name) == value for name, value in fields.items()):
                    return event
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(65536)
            except (TimeoutError, socket.timeout):
                return None
            except ConnectionError:
                data = b""
            if not data:
                self.is_closed = True
                return None
            self.receive(data)
            self.flush()

    def status(self, stream):
        answer = self.until(h2.events.ResponseReceived, stream_id=stream)
        return dict(answer.headers)[":status"] if answer else None

    def limit(self):
        return self.h2.remote_settings.max_concurrent_streams


def main():
    with Simulator("--plaintext", "--no-credentials") as simulator:
        client = Client(simulator.port)
        client.until(h2.events.RemoteSettingsChanged)
        check("one stream at first", client.limit() == 1, client.limit())
        check("accepted", client.status(client.post()) == "200")
        client.events.clear()
        client.until(h2.events.RemoteSettingsChanged, seconds=1)
        check("then a thousand", client.limit() == 1000, client.limit())

        twice = client.post(extra=[("apns-id", "8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11")] * 2)
        check("a header twice", client.status(twice) == "400")
        body = client.until(h2.events.DataReceived, stream_id=twice)
        check("DuplicateHeaders", body and body.data == b'{"reason":"DuplicateHeaders"}')

        client.h2.ping(b"12345678")
        client.flush()
        check("PING acknowledged", client.until(h2.events.PingAckReceived) is not None)
        simulator.control("POST", "/faults", "no-ping-ack")
        client.status(client.post())
        client.events.clear()
        client.h2.ping(b"87654321")
        client.flush()
        check("PING not acknowledged", client.until(h2.events.PingAckReceived, seconds=0.5) is None)
        simulator.control("DELETE", "/faults")

        reset = client.post("f002" + DEVICE)
        event = client.until(h2.events.StreamReset, stream_id=reset)
        check("RST_STREAM", event and event.error_code == h2.errors.ErrorCodes.INTERNAL_ERROR)

        simulator.control("POST", "/actions", "streams=1000/1/1000,every=200")
        seen = []
        for _ in range(3):
            client.events.clear()
            client.until(h2.events.RemoteSettingsChanged, seconds=2)
            seen.append(client.limit())
        check("SETTINGS 1000, 1, 1000", seen == [1000, 1, 1000], seen)

        simulator.control("POST", "/faults", "withhold-window")
        slow = Client(simulator.port)
        slow.until(h2.events.RemoteSettingsChanged)
        big = b'{"aps":{"alert":"' + b"x" * 4000 + b'"}}'
        count = 0
        while count < 40 and slow.h2.outbound_flow_control_window >= len(big):
            slow.status(slow.post(payload=big))
            count += 1
        check("the window is not opened again", 10 <= count <= 16, count)
        simulator.control("DELETE", "/faults")
        check("and then it is", slow.until(h2.events.WindowUpdated, seconds=2) is not None)

        goaway = client.post("60a0" + DEVICE)
        event = client.until(h2.events.ConnectionTerminated)
        check("GOAWAY names this stream", event and event.last_stream_id == goaway, event)
        check("GOAWAY says why", event and event.additional_data == b'{"reason":"Shutdown"}')
        client.until(h2.events.PingAckReceived, seconds=0.3)
        check("and the request is answered", (1, goaway) in client.later_frames, client.later_frames)

        silent = Client(simulator.port)
        silent.until(h2.events.RemoteSettingsChanged)
        check("no answer", silent.until(h2.events.ResponseReceived, seconds=0.5, stream_id=silent.post("ab50" + DEVICE)) is None)

        greedy = Client(simulator.port)
        greedy.until(h2.events.RemoteSettingsChanged)
        greedy.h2.remote_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = 1000
        greedy.h2.remote_settings.acknowledge()
        for _ in range(5):
            stream = greedy.h2.get_next_available_stream_id()
            greedy.h2.send_headers(stream, [
                (":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", f"/3/device/{DEVICE}")])
            greedy.flush()
        greedy.until(h2.events.ConnectionTerminated, seconds=1)
        connections = simulator.control("GET", "/connections")
        check("a client over the limit is found", connections[-1]["streams_over_limit"] > 0, connections[-1])
    finish()


main()
