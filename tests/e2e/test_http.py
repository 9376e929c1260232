#!/usr/bin/python3
"""`scb serve --http`: the endpoint in both eras, who may come in, malformed requests, and the broker
behind it, which fronts share."""
import base64
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest
import warnings

import harness
from harness import Place, until

MODERN, LEGACY = "2026-07-28", "2025-11-25"
PREFIX = "io.modelcontextprotocol/"


class Web:
    """A broker that serves HTTP."""

    def __init__(self, place, *arguments, **env):
        self.place = place
        self.log = open(os.path.join(place.top, "web.log"), "w+")
        self.tls = "--tls-cert" in arguments
        command = place.command("serve", "--http", "127.0.0.1:0", "--limit", "pool=0", *arguments)
        self.process = subprocess.Popen(command, env=place.environment(**env), cwd=place.home, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.log)
        self.port = None
        until(self.find_port, 10)
        token = os.path.join(place.state, "scb", "http-token")
        self.token = open(token).read() if os.path.exists(token) else None

    def words(self):
        with open(self.log.name) as f:
            return f.read()

    def find_port(self):
        found = re.search(r"https?://127.0.0.1:(\d+)/mcp", self.words())
        if found:
            self.port = int(found.group(1))
        return found or self.process.poll() is not None

    def end(self):
        self.process.terminate()
        printed = self.process.communicate(timeout=20)[0]
        self.log.close()
        return self.process.returncode, printed

    def ask(self, method="POST", path="/mcp", body=None, connection=None, **fields):
        """(status, fields, body)"""
        c = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                "Authorization": f"Bearer {self.token}"}
        head.update({name.replace("_", "-"): value for name, value in fields.items()})
        if isinstance(body, dict):
            body = json.dumps(body)
        c.request(method, path, body, {name: value for name, value in head.items() if value is not None})
        r = c.getresponse()
        data = r.read()
        if not connection:
            c.close()
        return r.status, {name.lower(): value for name, value in r.getheaders()}, data

    def legacy(self, method, params=None, **fields):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return self.ask(body=message, **fields)

    def modern(self, method, params=None, name=None, version=MODERN, **fields):
        params = dict(params or {})
        params["_meta"] = {PREFIX + "protocolVersion": version, PREFIX + "clientCapabilities": {},
                           PREFIX + "clientInfo": {"name": "t", "version": "1"}, **params.get("_meta", {})}
        head = {"MCP_Protocol_Version": version, "Mcp_Method": method}
        if name is not None:
            head["Mcp_Name"] = name
        head.update(fields)
        return self.ask(body={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, **head)

    def tool(self, name, modern=False, **arguments):
        """What the tool answers, whole."""
        params = {"name": name, "arguments": arguments}
        done = self.modern("tools/call", params, name) if modern else self.legacy("tools/call", params)
        assert done[0] == 200, done
        return json.loads(done[2])["result"]


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


class Outputs(unittest.TestCase):
    """/outputs/: presented files, by link or by token"""

    @classmethod
    def setUpClass(cls):
        cls.place = Place()
        tokens = cls.place.file(os.path.join(cls.place.home, "tokens"), b"ana " + b"a" * 32 + b"\n")
        os.chmod(tokens, 0o600)
        cls.web = Web(cls.place, "--token-file", tokens)
        cls.handle = cls.web.tool("session", action="open")["structuredContent"]["session"]

    @classmethod
    def tearDownClass(cls):
        cls.place.scb("sessions", "close", "--all")
        cls.web.end()

    def present(self, name, data):
        """What present_output says of a file."""
        for at in range(0, max(1, len(data)), 512 * 1024):
            done = self.web.tool("files", action="write", path=name, session=self.handle, encoding="base64", append=at > 0,
                                 content=base64.b64encode(data[at:at + 512 * 1024]).decode())
            self.assertNotIn("isError", done, done)
        return self.web.tool("present_output", path=name, session=self.handle)["structuredContent"]

    def get(self, link, method="GET", **fields):
        """As a browser would: nothing but the link."""
        path = link.split(str(self.web.port), 1)[1] if link.startswith("http") else link
        fields = {"Authorization": None, "Content_Type": None, "Accept": None, **fields}
        return self.web.ask(method, path, **fields)

    def test_link(self):
        """the link gives the file, and says what a browser may do with it"""
        data = os.urandom(3 << 20)
        o = self.present("Bericht ü 1.bin", data)
        self.assertTrue(o["link"].startswith(f"http://127.0.0.1:{self.web.port}/outputs/o-"), o)
        status, fields, body = self.get(o["link"])
        self.assertEqual((200, True), (status, body == data))
        self.assertEqual("attachment; filename=\"Bericht _ 1.bin\"; filename*=UTF-8''Bericht%20%C3%BC%201.bin",
                         fields["content-disposition"])
        self.assertEqual(("nosniff", f'"{o["sha256"]}"', "bytes", str(len(data))),
                         tuple(fields[name] for name in ("x-content-type-options", "etag", "accept-ranges", "content-length")))
        self.assertIn("sandbox", fields["content-security-policy"])
        self.assertEqual("no-referrer", fields["referrer-policy"])
        status, fields, body = self.get(o["link"], "HEAD")
        self.assertEqual((200, str(len(data)), b""), (status, fields["content-length"], body))
        events = [e for e in self.place.audit() if e["event"] == "file.fetch" and e["sha256"] == o["sha256"]]
        self.assertEqual([len(data)] * 2, [e["bytesOut"] for e in events])
        result = json.loads(self.web.legacy("resources/read", {"uri": o["uri"]})[2])["result"]["contents"][0]
        self.assertTrue(self.get(result["_meta"]["scb/link"])[2] == data)

    def test_ranges(self):
        """one range, outside, several, and only if it is still that file"""
        data = bytes(range(256)) * 1000
        o = self.present("ranges.bin", data)
        etag = f'"{o["sha256"]}"'
        for fields, status, want in (({"Range": "bytes=5-9"}, 206, data[5:10]), ({"Range": "bytes=-7"}, 206, data[-7:]),
                                     ({"Range": "bytes=200000-"}, 206, data[200000:]), ({"Range": "bytes=1-2,4-5"}, 200, data),
                                     ({"Range": "bytes=999999-"}, 416, b""), ({"Range": "bytes=5-9", "If_Range": etag}, 206, data[5:10]),
                                     ({"Range": "bytes=5-9", "If_Range": '"other"'}, 200, data),
                                     ({"Range": "bytes=5-9", "If_Range": "W/" + etag}, 200, data),
                                     ({"If_None_Match": f'"x", {etag}'}, 304, b""), ({"If_None_Match": '"x"'}, 200, data)):
            done = self.get(o["link"], **fields)
            self.assertEqual((status, True), (done[0], done[2] == want), fields)
            if status == 206:
                first = data.find(want) if len(want) > 5 else 5
                self.assertRegex(done[1]["content-range"], rf"^bytes \d+-\d+/{len(data)}$")
                self.assertEqual(str(len(want)), done[1]["content-length"])
                self.assertGreaterEqual(first, 0)
            if status == 416:
                self.assertEqual(f"bytes */{len(data)}", done[1]["content-range"])

    def test_kinds(self):
        """pictures and text are shown, what could run is saved, and nothing of it runs"""
        for name, data, how, kind in (("a.png", b"\x89PNG\r\n\x1a\n" + b"0" * 20, "inline", "image/png"),
                                      ("a.txt", b"hello\n", "inline", "text/plain; charset=utf-8"),
                                      ("a.html", b"<script>alert(1)</script>", "attachment", "text/html; charset=utf-8"),
                                      ("a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "attachment", "image/svg+xml"),
                                      ("a.js", b"alert(1)", "attachment", "text/javascript; charset=utf-8"),
                                      ("b.txt", b"<!DOCTYPE html><script>x</script>", "attachment", "text/plain; charset=utf-8"),
                                      ("empty.txt", b"", "inline", "text/plain; charset=utf-8")):
            done = self.get(self.present(name, data)["link"])
            self.assertEqual((200, data, kind), (done[0], done[2], done[1]["content-type"]), name)
            self.assertTrue(done[1]["content-disposition"].startswith(how + ";"), (name, done[1]))
            self.assertIn("sandbox", done[1]["content-security-policy"])

    def test_refused(self):
        """no other file, no other time, no other principal; a token opens one's own files alone"""
        o = self.present("mine.txt", b"mine")
        path = o["link"].split(str(self.web.port), 1)[1]
        plain = path.split("?")[0]
        self.assertEqual(200, self.get(path)[0])
        soon = str(int(re.search(r"until=(\d+)", path).group(1)) + 1)
        for bad in (path[:-1] + ("0" if path[-1] != "0" else "1"), re.sub(r"until=\d+", "until=" + soon, path),
                    re.sub(r"for=[^&]+", "for=token%3Aana", path), path.replace("mine", "other"),
                    path.replace("?", "/?"), path + "&x=1", plain + "?", plain + "x" + path[len(plain):]):
            self.assertEqual(404, self.get(bad)[0], bad)
        for bad in (plain, "/outputs/", "/outputs/../x"):
            self.assertEqual(401, self.get(bad)[0], bad)
        self.assertEqual((200, b"mine"), self.get(plain, Authorization=f"Bearer {self.web.token}")[::2])
        self.assertEqual(404, self.get(plain, Authorization="Bearer " + "a" * 32)[0])
        self.assertEqual(405, self.get(path, "POST")[0])
        self.assertEqual(403, self.get(path, Host="evil.example")[0])

    def test_changed(self):
        """what is not what was presented any more is not given out; nor what is gone"""
        o = self.present("changed.txt", b"before")
        self.assertEqual(200, self.get(o["link"])[0])
        with open(o["path"], "r+b") as f:
            f.write(b"after!")
        status, _, body = self.get(o["link"])
        self.assertEqual(409, status)
        self.assertIn(b"changed", body)
        os.unlink(o["path"])
        os.symlink("/etc/passwd", o["path"])
        self.assertEqual(404, self.get(o["link"])[0])
        os.unlink(o["path"])
        self.assertEqual(404, self.get(o["link"])[0])

    def test_slow(self):
        """a client that takes it slowly, or goes in the middle, costs no memory and stops nobody"""
        self.web.tool("run_command", command="head -c 24M /dev/urandom > large.bin", session=self.handle)
        o = self.web.tool("present_output", path="large.bin", session=self.handle)["structuredContent"]
        path = o["link"].split(str(self.web.port), 1)[1]
        self.assertEqual(200, self.get(o["link"], "HEAD")[0])
        before = harness.memory(self.web.process.pid)
        slow = []
        for _ in range(8):
            s = socket.create_connection(("127.0.0.1", self.web.port), 10)
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 200"))
            slow.append(s)
        self.assertEqual(200, self.web.legacy("ping")[0])
        self.assertLess(harness.memory(self.web.process.pid) - before, 8 << 20)
        for s in slow[1:]:
            s.close()
        got = b""
        while more := slow[0].recv(1 << 20):
            got += more
        with open(o["path"], "rb") as f:
            self.assertTrue(got.endswith(b"\r\n\r\n" + f.read()))
        slow[0].close()
        # one whose file changes on its way is cut off, not ended as if it were whole
        s = socket.create_connection(("127.0.0.1", self.web.port), 10)
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 200"))
        with open(o["path"], "ab") as f:
            f.write(b"more")
        got = 0
        try:
            while more := s.recv(1 << 20):
                got += len(more)
        except ConnectionResetError:
            pass
        s.close()
        self.assertLess(got, o["bytes"])

    def test_stdio(self):
        """over stdio there is no link"""
        client = self.place.serve()
        client.initialize()
        client.tool("files", action="write", path="s.txt", content="x", session=self.handle)
        self.assertNotIn("link", client.tool("present_output", path="s.txt", session=self.handle).data)
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


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class Tls(unittest.TestCase):
    """TLS with OpenSSL, and clients that have their own"""

    @classmethod
    def setUpClass(cls):
        cls.place = Place()
        cls.cert, cls.key = (os.path.join(cls.place.home, name) for name in ("cert.pem", "key.pem"))
        cls.certificate(cls.cert, cls.key)
        cls.web = Web(cls.place, "--tls-cert", cls.cert, "--tls-key", cls.key)
        assert cls.web.port, cls.web.words()

    @classmethod
    def tearDownClass(cls):
        cls.place.scb("sessions", "close", "--all")
        cls.web.end()

    @classmethod
    def certificate(cls, cert, key):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", key + ".new",
                        "-out", cert + ".new"], check=True, capture_output=True)
        for path in (key, cert):
            os.chmod(path + ".new", 0o600)
            os.chown(path + ".new", cls.place.uid, -1)
            os.rename(path + ".new", path)

    def context(self, **more):
        c = ssl.create_default_context(cafile=self.cert)
        for name, value in more.items():
            setattr(c, name, value)
        return c

    def ping(self, context):
        c = http.client.HTTPSConnection("127.0.0.1", self.web.port, timeout=30, context=context)
        status = self.web.legacy("ping", connection=c)[0]
        version, protocol, cert = c.sock.version(), c.sock.selected_alpn_protocol(), c.sock.getpeercert(True)
        c.close()
        return status, version, protocol, cert

    def test_python(self):
        """both versions, ALPN, large messages and files; older versions and other protocols not"""
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.assertEqual((200, version.name.replace("_", ".")), self.ping(self.context(maximum_version=version))[:2])
        with_alpn = self.context()
        with_alpn.set_alpn_protocols(["h2", "http/1.1"])
        self.assertEqual("http/1.1", self.ping(with_alpn)[2])
        other = self.context()
        other.set_alpn_protocols(["h2"])
        with self.assertRaises(ssl.SSLError):
            self.ping(other)
        old = self.context()
        old.set_ciphers("DEFAULT@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.ping(old)
        c = http.client.HTTPSConnection("127.0.0.1", self.web.port, timeout=60, context=self.context())
        for _ in range(20):
            self.assertEqual(200, self.web.legacy("ping", connection=c)[0])
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x" * (9 << 20)}}
        self.assertEqual(200, self.web.ask(body=message, connection=c)[0])

        def tool(name, **arguments):
            done = self.web.legacy("tools/call", {"name": name, "arguments": arguments}, connection=c)
            return json.loads(done[2])["result"]["structuredContent"]

        handle = tool("session", action="open")["session"]
        tool("run_command", command="head -c 5000001 /dev/urandom > large.bin", session=handle)
        o = tool("present_output", path="large.bin", session=handle)
        self.assertTrue(o["link"].startswith(f"https://127.0.0.1:{self.web.port}/outputs/"), o)
        status, _, data = self.web.ask("GET", o["link"].split(str(self.web.port), 1)[1], connection=c, Authorization=None)
        self.assertEqual((200, o["sha256"]), (status, hashlib.sha256(data).hexdigest()))

    def test_curl(self):
        """curl, which says goodbye in its own way"""
        for more in ((), ("--tls-max", "1.2"), ("--http2",)):
            done = subprocess.run(["curl", "-sS", "--cacert", self.cert, *more, f"https://127.0.0.1:{self.web.port}/healthz",
                                   f"https://localhost:{self.web.port}/healthz"], capture_output=True, text=True, timeout=60)
            self.assertEqual((0, "ok\nok\n"), (done.returncode, done.stdout), done.stderr)
        done = subprocess.run(["curl", "-sS", f"https://127.0.0.1:{self.web.port}/healthz"], capture_output=True, timeout=60)
        self.assertEqual(60, done.returncode)

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_node(self):
        """node's client"""
        code = f"""require("https").get({{host: "127.0.0.1", port: {self.web.port}, path: "/healthz",
            ca: require("fs").readFileSync({json.dumps(self.cert)})}}, r => r.on("data", d => process.stdout.write(d)))"""
        done = subprocess.run(["node", "-e", code], capture_output=True, text=True, timeout=60)
        self.assertEqual("ok\n", done.stdout, done.stderr)

    def closed(self, data):
        """What comes back until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.web.port), 30) as s:
            s.settimeout(30 * harness.SLOW)
            got = b""
            try:
                s.sendall(data)
                while more := s.recv(65536):
                    got += more
            except ConnectionResetError:
                pass
            return got

    def test_no_tls(self):
        """plain HTTP is told so; garbage, and a handshake that does not go on, are cut off"""
        self.assertIn(b"https", self.closed(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        for data in (b"\0" * 100, os.urandom(1000), b"\x16\x03\x01\xff\xff" + b"x" * 100, b"SSH-2.0-x\r\n"):
            self.assertNotIn(b"HTTP", self.closed(data))
        began = time.monotonic()
        self.closed(b"\x16\x03\x01\x02\x00\x01")
        self.assertLess(time.monotonic() - began, 20 * harness.SLOW)
        self.assertGreater(time.monotonic() - began, 8)
        self.assertEqual(200, self.ping(self.context())[0])

    def test_reload(self):
        """SIGHUP: another certificate for new connections; a broken one changes nothing; who is connected stays so"""
        before = self.ping(self.context())[3]
        c = http.client.HTTPSConnection("127.0.0.1", self.web.port, timeout=30, context=self.context())
        self.assertEqual(200, self.web.legacy("ping", connection=c)[0])
        self.certificate(self.cert, self.key)
        os.kill(self.web.process.pid, signal.SIGHUP)
        self.assertTrue(harness.until(lambda: self.served() != before, 20))
        after = self.served()
        self.assertEqual(200, self.web.legacy("ping", connection=c)[0])
        with open(self.cert, "ab") as f:
            f.truncate(100)
        os.kill(self.web.process.pid, signal.SIGHUP)
        self.assertTrue(harness.until(lambda: "the certificate stays as it was" in self.web.words(), 20), self.web.words())
        self.assertEqual(after, self.served())
        self.certificate(self.cert, self.key)
        os.kill(self.web.process.pid, signal.SIGHUP)
        self.assertTrue(harness.until(lambda: self.served() != after, 20))

    def served(self):
        """The certificate that is served, whatever it is worth."""
        c = ssl.create_default_context()
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
        return self.ping(c)[3]

    def test_options(self):
        """a key that others can read, one of another certificate, none at all"""
        other = os.path.join(self.place.home, "other")
        self.certificate(other + ".pem", other + ".key")
        readable = self.place.file(other + ".open", open(self.key, "rb").read())
        os.chmod(readable, 0o644)
        for arguments, words in ((("--tls-cert", self.cert), "--tls-key"), (("--tls-cert", self.cert, "--tls-key", readable), "chmod 600"),
                                 (("--tls-cert", self.cert, "--tls-key", other + ".key"), "key"),
                                 (("--tls-cert", "/nothing", "--tls-key", self.key), "/nothing")):
            done = self.place.scb("serve", "--http", "127.0.0.1:0", "--state", os.path.join(self.place.home, "s2"), *arguments)
            self.assertNotEqual(0, done.returncode)
            self.assertIn(words, done.stderr)

    def test_lazy(self):
        """a broker without TLS does not load its library"""
        place = Place()
        web = Web(place)
        for w, there in ((web, False), (self.web, True)):
            with open(f"/proc/{w.process.pid}/maps") as f:
                self.assertEqual(there, "libssl" in f.read())
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
