#!/usr/bin/python3
"""`scb serve --http`: the endpoint in both eras, who may come in, malformed requests, and the broker
behind it, which fronts share."""
import base64
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import harness
from harness import Place
from web import LEGACY, MODERN, PREFIX, Web


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = Place()
        tokens = cls.place.file(os.path.join(cls.place.home, "tokens"), b"# two more\nana " + b"a" * 32 + b"\nbob " + b"b" * 32 + b"\n")
        os.chmod(tokens, 0o600)
        cls.web = Web(cls.place, "--token-file", tokens, "--allow-host", "scb.example.com",
                      "--allow-origin", "https://chat.example.com")
        # Without a handle each call has a session of its own, of which there may be so many.
        cls.handle = cls.web.tool("session", action="open")["structuredContent"]["session"]

    @classmethod
    def tearDownClass(cls):
        cls.place.scb("sessions", "close", "--all")
        cls.web.end()

    def error(self, done):
        return json.loads(done[2])["error"]["code"]

    def test_legacy(self):
        """the older era: initialize, list, call; state lives in the session that a handle names"""
        status, fields, body = self.web.legacy("initialize", {"protocolVersion": LEGACY, "capabilities": {},
                                                              "clientInfo": {"name": "t", "version": "1"}})
        self.assertEqual((200, "application/json"), (status, fields["content-type"]))
        self.assertEqual(LEGACY, json.loads(body)["result"]["protocolVersion"])
        self.assertNotIn("mcp-session-id", fields)
        done = self.web.ask(body={"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.assertEqual((202, b""), (done[0], done[2]))
        self.assertEqual(202, self.web.ask(body={"jsonrpc": "2.0", "id": 9, "result": {}})[0])
        names = [t["name"] for t in json.loads(self.web.legacy("tools/list")[2])["result"]["tools"]]
        self.assertIn("run_code", names)
        first = self.web.tool("run_code", code="x = 41")["structuredContent"]
        again = self.web.tool("run_code", code="x + 1", session=first["session"])["structuredContent"]
        self.assertEqual("42", again["results"][0]["mime"]["text/plain"])
        other = self.web.tool("run_code", code="x + 1")["structuredContent"]
        self.assertNotEqual(first["session"], other["session"])
        self.assertEqual("NameError", other["error"]["name"])

    def test_modern(self):
        """the modern era: discover, list, call"""
        result = json.loads(self.web.modern("server/discover")[2])["result"]
        self.assertEqual(([MODERN], "complete"), (result["supportedVersions"], result["resultType"]))
        self.assertEqual(200, self.web.modern("tools/list")[0])
        result = self.web.tool("run_command", modern=True, command="echo hi", session=self.handle)
        self.assertEqual("hi\n", result["structuredContent"]["stdout"])
        name = "=?base64?" + base64.b64encode(b"run_command").decode() + "?="
        self.assertEqual(200, self.web.modern("tools/call", {"name": "run_command", "arguments": {"command": "true", "session": self.handle}},
                                               name)[0])

    def test_modern_refusals(self):
        """where header fields and message differ, with the codes of the specification"""
        call = {"name": "run_command", "arguments": {"command": "true"}}
        for done, status, code in (
                (self.web.modern("tools/list", Mcp_Method=None), 400, -32020),
                (self.web.modern("tools/list", Mcp_Method="Tools/List"), 400, -32020),
                (self.web.modern("tools/list", MCP_Protocol_Version=None), 400, -32020),
                (self.web.modern("tools/list", MCP_Protocol_Version="2027-01-01"), 400, -32020),
                (self.web.modern("tools/call", call), 400, -32020),
                (self.web.modern("tools/call", call, "run_code"), 400, -32020),
                (self.web.modern("tools/call", call, "=?base64?!?="), 400, -32020),
                (self.web.modern("resources/read", {"uri": "resource://x"}, "resource://y"), 400, -32020),
                (self.web.modern("tools/list", version="2027-01-01"), 400, -32022),
                (self.web.legacy("tools/list", MCP_Protocol_Version=MODERN), 400, -32602),
                (self.web.legacy("tools/list", {"_meta": {PREFIX + "protocolVersion": MODERN}},
                                 MCP_Protocol_Version=MODERN, Mcp_Method="tools/list"), 400, -32602),
                (self.web.modern("initialize", {"protocolVersion": MODERN}), 404, -32601),
                (self.web.modern("ping"), 404, -32601),
                (self.web.modern("no/such"), 404, -32601),
                (self.web.modern("tools/call", {"name": "none"}, "none"), 200, -32602),
                (self.web.legacy("no/such"), 200, -32601)):
            self.assertEqual((status, code), (done[0], self.error(done)), done)

    def test_refusals(self):
        """methods, types, bodies, versions"""
        self.assertEqual(400, self.web.legacy("tools/list", MCP_Protocol_Version="1999-01-01")[0])
        for version in ("2025-06-18", "2025-03-26", "2024-11-05"):
            self.assertEqual(200, self.web.legacy("tools/list", MCP_Protocol_Version=version)[0])
        for method in ("GET", "DELETE", "PUT", "PATCH"):
            status, fields, _ = self.web.ask(method)
            self.assertEqual((405, "POST, OPTIONS"), (status, fields["allow"]))
        self.assertEqual(415, self.web.ask(body=b"{}", Content_Type="text/plain")[0])
        self.assertEqual(200, self.web.legacy("ping", Content_Type="application/json; charset=utf-8", Accept="*/*")[0])
        self.assertEqual(200, self.web.legacy("ping", Accept=None)[0])
        for body in (b"{", b"[]", b"", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', b"\xff"):
            done = self.web.ask(body=body)
            self.assertEqual(400, done[0])
            self.assertIn(self.error(done), (-32700, -32600))
        self.assertEqual(404, self.web.ask("GET", "/nothing")[0])
        self.assertEqual((200, b"ok\n"), self.web.ask("GET", "/healthz", Authorization=None)[::2])

    def test_tokens(self):
        """without the right one nothing is told; each is a principal, whose sessions are its own"""
        for value in (None, "", "Bearer", "Bearer wrong", "Basic " + self.web.token, "Bearer " + self.web.token[:-1],
                      f"Bearer {self.web.token}x"):
            status, fields, body = self.web.legacy("tools/list", Authorization=value)
            self.assertEqual(401, status)
            self.assertTrue(fields["www-authenticate"].startswith("Bearer"))
            self.assertEqual("close", fields["connection"], "clients would ask on a connection that goes")
            self.assertNotIn(self.web.token.encode(), body)
        self.assertEqual(401, self.web.ask("POST", "/mcp?token=" + self.web.token, body={}, Authorization=None)[0])
        open_ = {"name": "session", "arguments": {"action": "open"}}
        ana = json.loads(self.web.legacy("tools/call", open_, Authorization="Bearer " + "a" * 32)[2])
        handle = ana["result"]["structuredContent"]["session"]
        use = {"name": "run_command", "arguments": {"command": "true", "session": handle}}
        foreign = json.loads(self.web.legacy("tools/call", use, Authorization="bearer " + "b" * 32)[2])["result"]
        use["arguments"]["session"] = "s-" + "0" * 32
        forged = json.loads(self.web.legacy("tools/call", use, Authorization="Bearer " + "b" * 32)[2])["result"]
        self.assertEqual((True, foreign["content"]), (foreign["isError"], forged["content"]))
        self.assertTrue(any(e.get("principal") == "token:ana" for e in self.place.audit()))

    def test_places(self):
        """other hosts and origins are kept out, those that are named let in"""
        for fields, status in (({"Host": "evil.example"}, 403), ({"Host": "127.0.0.1.evil.example"}, 403),
                               ({"Host": "localhost:1"}, 200), ({"Host": "[::1]:80"}, 200),
                               ({"Host": "scb.example.com"}, 200), ({"Host": "scb.example.com:443"}, 200),
                               ({"Origin": "http://evil.example"}, 403), ({"Origin": "null"}, 403),
                               ({"Origin": "http://localhost.evil.example"}, 403),
                               ({"Origin": "http://localhost:3000"}, 200), ({"Origin": "https://chat.example.com"}, 200)):
            self.assertEqual(status, self.web.legacy("ping", **fields)[0], fields)
            self.assertEqual(status, self.web.ask("GET", "/healthz", **fields)[0], fields)
        status, fields, _ = self.web.ask("OPTIONS", Origin="https://chat.example.com", Authorization=None)
        self.assertEqual((204, "https://chat.example.com"), (status, fields["access-control-allow-origin"]))
        self.assertEqual(403, self.web.ask("OPTIONS", Origin="http://evil.example", Authorization=None)[0])

    def test_stream(self):
        """progress before the result comes as events; who reads none gets JSON"""
        params = {"name": "run_command", "arguments": {"command": "sleep 2.5", "session": self.handle}, "_meta": {"progressToken": "p"}}
        for ask in (self.web.legacy, lambda m, p, **f: self.web.modern(m, p, "run_command", **f)):
            status, fields, body = ask("tools/call", params)
            self.assertEqual((200, "text/event-stream"), (status, fields["content-type"]))
            events = [json.loads(e.split("data: ", 1)[1]) for e in body.decode().split("\n\n") if "data: " in e]
            self.assertEqual("notifications/progress", events[0]["method"])
            self.assertEqual("p", events[0]["params"]["progressToken"])
            self.assertEqual(1, events[-1]["id"])
            status, fields, body = ask("tools/call", params, Accept="application/json")
            self.assertEqual((200, "application/json"), (status, fields["content-type"]))
            self.assertEqual(1, json.loads(body)["id"])

    def gone(self, ask):
        """A client that leaves a second after it asked: what became of the command."""
        marker = f"m{time.monotonic_ns()}"
        params = {"name": "run_command", "arguments": {"command": f"sleep 4; echo {marker} > /workspace/{marker}"}}
        params["arguments"]["session"] = self.handle
        c = http.client.HTTPConnection("127.0.0.1", self.web.port, timeout=1)
        with self.assertRaises(TimeoutError):
            ask(params, c)
        c.close()
        time.sleep(5)
        return marker in json.dumps(self.web.tool("files", action="list", session=self.handle))

    def test_gone(self):
        """a request of the modern era ends with its client; one of the older era does not"""
        self.assertFalse(self.gone(lambda p, c: self.web.modern("tools/call", p, "run_command", connection=c)))
        self.assertTrue(self.gone(lambda p, c: self.web.legacy("tools/call", p, connection=c)))

    def test_cancelled(self):
        """notifications/cancelled of the older era, as a request of its own"""
        answers = []
        message = {"jsonrpc": "2.0", "id": "c1", "method": "tools/call",
                   "params": {"name": "run_command", "arguments": {"command": "sleep 20", "session": self.handle}}}
        asking = threading.Thread(target=lambda: answers.append(self.web.ask(body=message)))
        began = time.monotonic()
        asking.start()
        time.sleep(1)
        done = self.web.ask(body={"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c1"}})
        self.assertEqual(202, done[0])
        asking.join(15)
        self.assertLess(time.monotonic() - began, 12)
        self.assertEqual((200, "text/event-stream", b""),
                         (answers[0][0], answers[0][1]["content-type"], answers[0][2]))

    def test_connection(self):
        """many requests on one connection; a HEAD; one that says what it expects"""
        c = http.client.HTTPConnection("127.0.0.1", self.web.port, timeout=10)
        for _ in range(50):
            self.assertEqual(200, self.web.legacy("ping", connection=c)[0])
        status, fields, body = self.web.ask("HEAD", "/healthz", connection=c)
        self.assertEqual((200, "3", b""), (status, fields["content-length"], body))
        c.close()
        with socket.create_connection(("127.0.0.1", self.web.port), 5) as s:
            s.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + self.web.token.encode() +
                      b"\r\nContent-Type: application/json\r\nContent-Length: 40\r\nExpect: 100-continue\r\n\r\n")
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 100 "))
            s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 200 "))

    def raw(self, data, wait=5):
        """What comes back up to the connection's end; None where it stays open."""
        with socket.create_connection(("127.0.0.1", self.web.port), 5) as s:
            s.sendall(data)
            s.settimeout(wait)
            got = b""
            try:
                while more := s.recv(65536):
                    got += more
            except socket.timeout:
                return None
            except ConnectionResetError:
                pass
            return got

    def test_malformed(self):
        """refused at once, and the connection closed"""
        post = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n"
        for data in (post + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     post + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", post + b"Content-Length: +5\r\n\r\nhello",
                     post + b"Transfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\n\r\n", post + b"X: a\r\n b\r\n\r\n",
                     b"GET /healthz HTTP/1.1\nHost: localhost\n\n", b"GET /healthz HTTP/1.1\r\n\r\n", b"GET /healthz\r\n",
                     b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\n",
                     b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40000 + b"\r\n\r\n",
                     post + b"Content-Length: 99999999999\r\n\r\n", post + b"Expect: cake\r\nContent-Length: 1\r\n\r\nx"):
            got = self.raw(data)
            self.assertIsNotNone(got, data[:80])
            self.assertRegex(got[:20], rb"^HTTP/1.1 [45]", data[:80])
            self.assertEqual(1, len(re.findall(rb"HTTP/1.1 \d", got)))

    def test_large(self):
        """10 MiB of body are read, one byte more is not"""
        limit = 10 << 20
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": ""}}
        message["params"]["x"] = "x" * (limit - len(json.dumps(message)))
        self.assertEqual(200, self.web.ask(body=message)[0])
        message["params"]["x"] += "x"
        with socket.create_connection(("127.0.0.1", self.web.port), 5) as s:
            s.sendall(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + self.web.token.encode() +
                      b"\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (limit + 1))
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 413 "))

    def test_fronts(self):
        """hosts over stdio share the broker: the same sessions, named over either"""
        client = self.place.serve()
        client.initialize()
        handle = client.tool("session", action="open").session
        client.tool("run_code", session=handle, code="y = 6 * 7")
        result = self.web.tool("run_code", session=handle, code="y")
        self.assertEqual("42", result["structuredContent"]["results"][0]["mime"]["text/plain"])
        client.close()


class Metrics(unittest.TestCase):
    def test_page(self):
        """what was done and what there is, in Prometheus' format; only with a token, and no label from outside"""
        place = Place()
        web = Web(place)
        handle = web.tool("session", action="open")["structuredContent"]["session"]
        web.tool("run_code", code="1", session=handle)
        web.tool("run_code", code="1", session="s-" + "0" * 32)
        web.legacy("tools/call", {"name": "evil\"tool", "arguments": {}})
        web.ask("GET", "/evil")
        self.assertEqual(401, web.ask("GET", "/metrics", Authorization=None)[0])
        status, fields, body = web.ask("GET", "/metrics")
        self.assertEqual((200, "text/plain; version=0.0.4; charset=utf-8"), (status, fields["content-type"]))
        values, types = {}, {}
        for line in body.decode().splitlines():
            if line.startswith("# TYPE "):
                types[line.split()[2]] = line.split()[3]
            elif not line.startswith("#"):
                self.assertRegex(line, r'^[a-z_]+(\{([a-z]+="[^"\\]*",?)+\})? [0-9.]+$')
                name, value = line.rsplit(" ", 1)
                self.assertNotIn(name, values)
                values[name] = float(value)
                base = re.sub(r"_(bucket|sum|count)$", "", name.split("{")[0])
                self.assertTrue(base in types or name.split("{")[0] in types, name)
        self.assertNotIn("evil", body.decode())
        for name, want in (('scb_tool_calls_total{tool="run_code",outcome="ok"}', 1),
                           ('scb_tool_calls_total{tool="run_code",outcome="no_such_session"}', 1),
                           ('scb_tool_call_duration_seconds_count{tool="run_code"}', 2),
                           ('scb_tool_call_duration_seconds_bucket{tool="run_code",le="+Inf"}', 2),
                           (f'scb_sandboxes{{provider="{harness.PROVIDER}",use="session"}}', 1), ("scb_kernels", 1),
                           ("scb_jobs_started_total", 1), ("scb_jobs_ended_total", 1), ("scb_audit_failures_total", 0),
                           (f'scb_build_info{{version="{harness.VERSION}"}}', 1),
                           ('scb_http_responses_total{code="404"}', 1), ('scb_http_responses_total{code="401"}', 1)):
            self.assertEqual(want, values.get(name), name)
        self.assertGreater(values["scb_resident_memory_bytes"], 1 << 20)
        self.assertGreater(values["scb_http_sent_bytes_total"], 1000)
        place.scb("sessions", "close", "--all")
        web.end()


class Limits(unittest.TestCase):
    def test_wrong_tokens(self):
        """an address that tries tokens is not listened to for a while; behind a proxy that is named, its client"""
        place = Place()
        web = Web(place, "--proxy", "127.0.0.1")
        wrong = {"Authorization": "Bearer wrong", "X_Forwarded_For": "10.9.9.9, 192.0.2.1"}
        seen = [web.legacy("ping", **wrong)[0] for _ in range(30)]
        self.assertEqual([401] * 20, seen[:20])
        self.assertIn(429, seen)
        status, fields, _ = web.legacy("ping", X_Forwarded_For="192.0.2.1")
        self.assertEqual(429, status)
        self.assertGreater(int(fields["retry-after"]), 0)
        self.assertEqual(429, web.ask("GET", "/metrics", X_Forwarded_For="192.0.2.1")[0])
        self.assertEqual(200, web.legacy("ping", X_Forwarded_For="192.0.2.1, 192.0.2.2")[0])
        self.assertEqual(200, web.legacy("ping")[0])
        self.assertEqual(401, web.legacy("ping", Authorization=None, X_Forwarded_For="192.0.2.2")[0])
        # who only forges links is one of them
        forged = "/outputs/o-" + "0" * 32 + "/a?for=uid%3A0&until=9999999999&key=" + "0" * 32
        seen = [web.ask("GET", forged, X_Forwarded_For="192.0.2.3", Authorization=None)[0] for _ in range(30)]
        self.assertEqual([404] * 20, seen[:20])
        self.assertIn(429, seen)
        web.end()


class Secrets(unittest.TestCase):
    def test_sources(self):
        """variables and programs of the broker's own environment, for each principal what its rules say"""
        place = Place()
        program = place.file(os.path.join(place.home, "program"), b"#!/bin/sh\necho \"value of a program\"; env > $0.env\n")
        os.chmod(program, 0o755)
        tokens = place.file(os.path.join(place.home, "tokens"), b"ana " + b"a" * 32 + b"\nbob " + b"b" * 32 + b"\n")
        os.chmod(tokens, 0o600)

        def policy(secrets):
            rules = json.loads(place.scb("policy", "show").stdout)
            rules["secrets"] = {}
            rules["principals"] = {f"uid:{place.uid}": {}, "token:ana": {"secrets": secrets}, "token:bob": {"secrets": {
                "theirs": {"source": "env:SCB_TEST_VALUE", "exposure": "session", "variable": "THEIRS"}}}}
            path = os.path.join(place.home, "policy.json")
            place.file(path + ".new", json.dumps(rules).encode())
            os.chmod(path + ".new", 0o600)
            os.rename(path + ".new", path)
            return path

        path = policy({"variable": {"source": "env:SCB_TEST_VALUE", "exposure": "session", "variable": "FROM_ENV"},
                       "program": {"exec": [program], "exposure": "session", "variable": "FROM_EXEC"}})
        web = Web(place, "--token-file", tokens, "--policy", path, SCB_TEST_VALUE="value of a variable")
        show = "python3 -c 'import os; print([len(os.environ.get(n, str())) for n in (\"FROM_ENV\", \"FROM_EXEC\", \"THEIRS\")])'; env"

        def run(token):
            call = {"name": "run_command", "arguments": {"command": show}}
            done = web.legacy("tools/call", call, Authorization="Bearer " + token)
            self.assertIn(b'"structuredContent"', done[2])
            return json.loads(done[2])["result"]["structuredContent"]["stdout"]

        ana, bob, own = run("a" * 32), run("b" * 32), run(web.token)
        self.assertTrue(ana.startswith("[19, 18, 0]"), ana)
        self.assertTrue(bob.startswith("[0, 0, 19]"), bob)
        self.assertTrue(own.startswith("[0, 0, 0]"), own)
        for text in (ana, bob, own):
            self.assertNotIn("value of a", text)
        with open(program + ".env") as f:
            self.assertNotIn("value of a variable", f.read())
        self.assertNotIn("value of a", json.dumps(place.audit()))
        # the policy names one more: it is fetched for sessions from then on
        policy({"program": {"exec": [program], "exposure": "session", "variable": "THEIRS"}})
        self.assertTrue(harness.until(lambda: run("a" * 32).startswith("[0, 0, 18]"), 20, step=1))
        place.scb("sessions", "close", "--all")
        web.end()


class Start(unittest.TestCase):
    def other(self, place, build):
        """A front of another build; its broker's files are this build's."""
        copy = os.path.join(place.top, "scb-" + build)
        if not os.path.exists(copy):
            shutil.copy2(os.path.join(harness.BUILD, "tests/e2e/scb-" + build), copy)
            os.chmod(copy, 0o755)
        return copy

    def test_newer(self):
        """a newer front goes on with a broker that serves HTTP; one that cannot is told to restart that; no second one starts"""
        place = Place()
        web = Web(place)
        before = place.broker()
        env = place.environment(SCB_AGENT=os.path.join(place.bin, "scb-agent"), SCB_KERNELS=os.path.join(place.bin, "kernels"))
        done = subprocess.run([*place.prefix, self.other(place, "newer"), "run", "-c", "6 * 7"], env=env, cwd=place.home,
                              capture_output=True, text=True, timeout=60 * harness.SLOW)
        self.assertEqual((0, "42\n"), (done.returncode, done.stdout), done.stderr)
        began = time.monotonic()
        done = subprocess.run([*place.prefix, self.other(place, "later"), "run", "-c", "6 * 7"], env=env, cwd=place.home,
                              capture_output=True, text=True, timeout=60 * harness.SLOW)
        self.assertEqual(76, done.returncode, done.stderr)
        for word in ("restart", "HTTP", harness.VERSION, "100.0.0", str(before)):
            self.assertIn(word, done.stderr)
        done = place.scb("serve", "--http", "127.0.0.1:0")
        self.assertEqual(65, done.returncode, done.stderr)
        self.assertIn(str(before), done.stderr)
        self.assertLess(time.monotonic() - began, 8 * harness.SLOW)
        self.assertEqual(before, place.broker())
        self.assertEqual(200, web.legacy("ping")[0])
        web.end()

    def test_url(self):
        """--url: what links begin with; and they outlive the broker"""
        place = Place()
        web = Web(place, "--url", "https://scb.example.com/x")
        handle = web.tool("session", action="open")["structuredContent"]["session"]
        web.tool("files", action="write", path="a.txt", content="abc", session=handle)
        link = web.tool("present_output", path="a.txt", session=handle)["structuredContent"]["link"]
        self.assertTrue(link.startswith("https://scb.example.com/x/outputs/o-"), link)
        web.end()
        web = Web(place)
        path = link[len("https://scb.example.com/x"):]
        self.assertEqual((200, b"abc"), web.ask("GET", path, Authorization=None)[::2])
        place.scb("sessions", "close", "--all")
        web.end()

    def test_takes_over(self):
        """a broker that runs hands over; its sessions live on, under HTTP and again without it"""
        place = Place()
        client = place.serve()
        client.initialize()
        handle = client.tool("session", action="open").session
        client.tool("run_code", session=handle, code="z = 1")
        before = place.broker()
        web = Web(place)
        self.assertIsNotNone(web.port, web.words())
        self.assertNotEqual(before, place.broker())
        result = web.tool("run_code", session=handle, code="z + 1")
        self.assertEqual("2", result["structuredContent"]["results"][0]["mime"]["text/plain"])
        result = client.tool("run_code", session=handle, code="z + 2").result
        self.assertEqual("3", result["structuredContent"]["results"][0]["mime"]["text/plain"])
        self.assertEqual((0, b""), web.end())
        result = client.tool("run_code", session=handle, code="z + 3").result
        self.assertEqual("4", result["structuredContent"]["results"][0]["mime"]["text/plain"])
        client.close()

    def test_options(self):
        """what is refused before anything listens"""
        place = Place()
        for arguments, words in ((("--http", "8931"), "ADDRESS:PORT"), (("--http", "0.0.0.0:0"), "--insecure-http"),
                                 (("--http", "[::]:0"), "--insecure-http"), (("--no-token",), "--http"),
                                 (("--http", "127.0.0.1:0", "--solo"), "--solo"),
                                 (("--http", "example.com:80", "--insecure-http"), "numeric"),
                                 (("--http", "127.0.0.1:0", "--token-file", "/nothing"), "/nothing")):
            done = place.scb("serve", *arguments)
            self.assertNotEqual(0, done.returncode)
            self.assertIn(words, done.stderr)
            self.assertEqual("", done.stdout)
        readable = place.file(os.path.join(place.home, "tokens"), b"ana " + b"a" * 32 + b"\n")
        os.chmod(readable, 0o644)
        self.assertIn("chmod 600", place.scb("serve", "--http", "127.0.0.1:0", "--token-file", readable).stderr)
        os.chmod(readable, 0o600)
        place.file(readable, b"ana short\n")
        self.assertIn(":1:", place.scb("serve", "--http", "127.0.0.1:0", "--token-file", readable).stderr)

    def test_no_token(self):
        """--no-token: whoever reaches it, from here"""
        place = Place()
        web = Web(place, "--no-token")
        web.token = None
        self.assertEqual(200, web.legacy("tools/list", Authorization=None)[0])
        self.assertEqual(403, web.legacy("tools/list", Authorization=None, Host="evil.example")[0])
        os.kill(web.process.pid, signal.SIGINT)
        self.assertEqual(0, web.process.wait(10))


if __name__ == "__main__":
    harness.main()
