#!/usr/bin/python3
"""Attacks that exhaust: a peer over HTTP without a token, a principal who takes what others need, one line that is a million values."""
import http.client
import json
import os
import socket
import threading
import time
import unittest

import attack  # noqa: F401 (finds the harness)
import harness
from harness import SANITIZED, SLOW, Place, memory, until
from test_page import TOKENS, Pages

MIB = 1 << 20


def assert_grown_less(case, before, pid, bytes_more):
    if not SANITIZED:  # which keeps what was freed
        case.assertLess(memory(pid) - before, bytes_more)


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = Place()
        tokens = cls.place.file(os.path.join(cls.place.home, "tokens"), "".join(f"{n} {t}\n" for n, t in TOKENS.items()).encode())
        os.chmod(tokens, 0o600)
        cls.web = Pages(cls.place, "--token-file", tokens)

    @classmethod
    def tearDownClass(cls):
        cls.place.scb("sessions", "close", "--all")
        cls.web.end()

    def setUp(self):
        self.before = memory(self.place.broker())

    def connect(self, head, body=b""):
        s = socket.create_connection(("127.0.0.1", self.web.port), 5)
        self.addCleanup(s.close)
        try:
            s.sendall(f"{head}\r\nHost: 127.0.0.1\r\n\r\n".encode() + body)
        except OSError:
            pass  # it is not listened to
        return s

    def bearer(self, name):
        return f"Authorization: Bearer {TOKENS[name]}"

    def test_bodies_of_nobody(self):
        """bytes that come without a token are not kept, whatever is asked for"""
        for line in ("POST /nothing", "POST /", "PUT /mcp", "GET /healthz", "POST /sandbox", "DELETE /outputs/x", "POST /page/state", "POST /mcp"):
            for _ in range(4):
                s = self.connect(f"{line} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 10000000", b"x" * 9_000_000)
            self.assertRegex(s.recv(100), rb"HTTP/1.1 4", line)
        assert_grown_less(self, self.before, self.place.broker(), 20 * MIB)

    def test_bodies_that_do_not_end(self):
        """of large bodies so many are held at once; small requests are served meanwhile"""
        head = f"POST /mcp HTTP/1.1\r\n{self.bearer('ana')}\r\nContent-Type: application/json\r\nContent-Length: 10000000"
        held = [self.connect(head, b"x" * 9_000_000) for _ in range(40)]
        assert_grown_less(self, self.before, self.place.broker(), 200 * MIB)
        self.assertEqual(200, self.web.legacy("tools/list")[0])
        for s in held:
            s.close()
        self.assertTrue(until(lambda: self.web.ask(body={"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x" * 9_000_000}})[0] == 200, 10))

    def test_calls_in_flight(self):
        """a principal has so many requests at once, of clients that have gone among them; others are served"""
        ana = {"Authorization": f"Bearer {TOKENS['ana']}"}
        r = json.loads(self.web.legacy("tools/call", {"name": "data_dashboard", "arguments": {
            "code": "import time\ntime.sleep(60)", "wait_s": 0, "timeout_s": 60}}, **ana)[2])
        board = r["result"]["structuredContent"]["dashboard"]
        poll = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "dashboard_event", "arguments": {
            "dashboard": board, "event": {"type": "poll", "wait_s": 20, "seq": 0}}}}).encode()
        head = f"POST /mcp HTTP/1.1\r\n{self.bearer('ana')}\r\nContent-Type: application/json\r\nAccept: application/json\r\nContent-Length: {len(poll)}"
        for _ in range(540):
            s = self.connect(head, poll)
            last = s.recv(4000) if _ >= 530 else b""
            s.close()
        self.assertIn(b" 429 ", last)
        self.assertIn(b"Too many requests", last)
        self.assertEqual(200, self.web.legacy("tools/list", Authorization=f"Bearer {TOKENS['bob']}")[0])

    def test_pages_that_wait(self):
        """a principal whose pages wait by the hundred leaves room for those of others"""
        waiting = [self.connect(f"GET /page/state?after=999999999&wait=25 HTTP/1.1\r\n{self.bearer('ana')}") for _ in range(256)]
        self.assertTrue(until(lambda: waiting[-1].recv(100).startswith(b"HTTP/1.1 503 "), 5))
        c = http.client.HTTPConnection("127.0.0.1", self.web.port, timeout=10)
        c.request("GET", "/page/state?wait=0", headers={"Authorization": "Bearer " + TOKENS["bob"]})
        self.assertEqual(200, c.getresponse().status)
        c.close()


class Descriptors(unittest.TestCase):
    def test_few(self):
        """where the system gives few descriptors, connections leave enough of them for sandboxes and files"""
        place = Place()
        plain = place.command
        place.command = lambda *arguments: ["prlimit", "--nofile=512:512", *plain(*arguments)]
        web = Pages(place)
        place.command = plain
        held = [socket.create_connection(("127.0.0.1", web.port), 5) for _ in range(600)]
        client = place.serve()
        client.initialize()
        self.assertEqual("exit", client.tool("run_code", code="1").reason)
        for s in held:
            s.close()
        self.assertTrue(until(lambda: web.legacy("tools/list")[0] == 200, 5))
        client.close()
        place.scb("sessions", "close", "--all")
        web.end()


class Lines(harness.Case):
    def test_many_values(self):
        """a line of millions of values is refused before they are made; others wait for none of it"""
        before = memory(self.client.server())
        for unit in (b"{},", b"[],", b"1,", b'"",', b'{"":[]},'):
            call = self.client.expect(900)
            sent = threading.Thread(target=self.client.raw, args=(
                b'{"jsonrpc":"2.0","id":900,"method":"ping","params":{"a":[' + unit * (10_000_000 // len(unit)) + b"1]}}\n",))
            sent.start()
            sent.join()
            self.assertTrue(until(lambda: any("200000 values" in json.dumps(m) for m in self.client.unmatched), 10))
            self.client.unmatched.clear()
            del self.client.calls[900], call
        assert_grown_less(self, before, self.client.server(), 60 * MIB)
        text = "{}," * 1_000_000  # in a string they are text
        self.assertDone(self.client.tool("run_command", argv=["wc", "-c"], stdin=text))


if __name__ == "__main__":
    harness.main()
