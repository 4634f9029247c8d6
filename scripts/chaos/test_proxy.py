"""What the proxies must bear: whatever happens between two of their turns. Run: python3 test_proxy.py"""

import contextlib
import io
import socket
import unittest

from proxy import ProxyServer


class ProxyTests(unittest.TestCase):
    def setUp(self):
        self.target = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.target.close)
        self.server = ProxyServer({"target": self.target.getsockname()[1]})
        self.proxy = self.server.proxies["target"]
        self.addCleanup(self.server.close)

    def obey(self, mode):
        with contextlib.redirect_stdout(io.StringIO()) as answer:
            self.server.obey("target", mode)
        self.assertEqual(answer.getvalue(), "ok\n")

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.proxy.port))
        self.addCleanup(client.close)
        return client

    def test_a_client_that_came_in_the_turn_of_a_refusal_is_refused(self):
        self.connect()
        self.obey("refuse")
        self.server.accept(self.proxy)
        self.assertEqual(self.proxy.sides, set())

    def test_a_client_that_came_in_the_turn_of_a_hole_waits(self):
        self.connect()
        self.obey("hole")
        self.server.accept(self.proxy)
        self.assertEqual(self.proxy.sides, set())
        self.obey("forward")
        self.server.accept(self.proxy)
        self.assertEqual(len(self.proxy.sides), 2)

    def test_another_server_takes_the_place_of_the_first(self):
        self.connect()
        self.server.accept(self.proxy)
        other = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(other.close)
        self.obey(f"to:{other.getsockname()[1]}")
        self.assertEqual(self.proxy.sides, set(), "nothing goes to the old one any more")
        self.connect()
        self.server.accept(self.proxy)
        other.settimeout(5)
        other.accept()[0].close()

    def test_a_listener_that_came_back_has_no_client_yet(self):
        self.connect()
        self.obey("refuse")
        self.obey("forward")
        self.server.accept(self.proxy)
        self.assertEqual(self.proxy.sides, set())
        self.connect()
        self.server.accept(self.proxy)
        self.assertEqual(len(self.proxy.sides), 2)


if __name__ == "__main__":
    unittest.main()
