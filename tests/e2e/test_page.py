#!/usr/bin/python3
"""The host page over HTTP: how one comes in, what the cookie is good for and what not, what the page is
told; and `scb demo`. (tests/browser/page.mjs drives the page itself.)"""
import http.client
import json
import os
import pty
import re
import signal
import subprocess
import threading
import time
import unittest

import harness
from harness import Place, until
from web import Web

BROWSER = {"Sec_Fetch_Site": "same-origin"}
TOKENS = {"ana": "a" * 32, "bob": "b+%&/=?" + "b" * 20}


class Pages(Web):
    """As a browser asks."""

    def get(self, path, cookie=None, method="GET", **fields):
        return self.ask(method, path, **{"Authorization": None, "Content_Type": None, "Accept": None, "Cookie": cookie, **fields})

    def enter(self, token):
        """The cookie that the token gives."""
        quoted = re.sub(r"[^A-Za-z0-9]", lambda m: f"%{ord(m.group()):02X}", token)
        status, fields, _ = self.get(f"/?token={quoted}")
        assert status == 200, status
        return fields["set-cookie"].split(";")[0]

    def state(self, cookie, query="", **fields):
        status, _, body = self.get("/page/state" + query, cookie, **{**BROWSER, **fields})
        return json.loads(body) if status == 200 else status

    def post(self, cookie, **fields):
        origin = f"http://127.0.0.1:{self.port}"
        return self.legacy("tools/list", **{"Authorization": None, "Cookie": cookie, "Origin": origin, **BROWSER, **fields})[0]


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = Place()
        lines = "".join(f"{name} {token}\n" for name, token in TOKENS.items())
        tokens = cls.place.file(os.path.join(cls.place.home, "tokens"), lines.encode())
        os.chmod(tokens, 0o600)
        cls.web = Pages(cls.place, "--token-file", tokens, "--allow-origin", "https://chat.example", "--allow-host", "scb.example")
        cls.cookie = cls.web.enter(cls.web.token)

    @classmethod
    def tearDownClass(cls):
        cls.place.scb("sessions", "close", "--all")
        cls.web.end()

    def test_without(self):
        """without a token: a plain page that says where the address stands, and nothing of it"""
        for cookie in (None, "scb-1=1.2", self.cookie[:-1], self.cookie[:-1] + ("0" if self.cookie[-1] != "0" else "1"),
                       self.cookie.replace("scb-", "scb-0"), f"{self.cookie}; {self.cookie}"):
            status, fields, body = self.web.get("/", cookie)
            self.assertEqual(401, status, cookie)
            self.assertIn(b"http-url", body)
            self.assertNotIn(b"<script", body)
            self.assertIn("default-src 'none'", fields["content-security-policy"])
            self.assertNotIn("set-cookie", fields)

    def test_token(self):
        """the token in the address gives the cookie, and is gone from there"""
        with open(os.path.join(self.place.state, "scb", "http-url")) as f:
            url = f.read().strip()
        self.assertEqual(0o600, os.stat(f.name).st_mode & 0o777)
        self.assertEqual(f"http://127.0.0.1:{self.web.port}/?token={self.web.token}", url)
        before = sum(e["event"] == "page.open" for e in self.place.audit())
        status, fields, body = self.web.get(url[url.index("/?"):] + "&show=d-" + "0" * 32)
        self.assertEqual(200, status)
        self.assertEqual(before + 1, sum(e["event"] == "page.open" for e in self.place.audit()))
        cookie = fields["set-cookie"]
        self.assertRegex(cookie, rf"^scb-{self.web.port}=\d+\.[0-9a-f]{{64}}; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict$")
        self.assertNotIn(self.web.token, cookie)
        self.assertNotIn(self.web.token.encode(), body)
        self.assertIn(b'content="0;url=/#d-' + b"0" * 32 + b'"', body)
        self.assertEqual(("no-referrer", "no-store"), (fields["referrer-policy"], fields["cache-control"]))
        self.assertIn(b'content="0;url=/"', self.web.get(f"/?token={self.web.token}&show=//evil.example")[2])
        status, fields, body = self.web.get("/", cookie.split(";")[0])
        self.assertEqual((200, "gzip"), (status, fields["content-encoding"]))
        policy = fields["content-security-policy"]
        for part in ("default-src 'none'", "script-src 'sha256-", "connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'"):
            self.assertIn(part, policy)
        self.assertNotIn("unsafe", policy)

    def test_wrong(self):
        """a wrong token, and whoever asks for the page from elsewhere"""
        for query in ("?token=nothing", "?token=", "?code=1.2", f"?token={self.web.token}&token={self.web.token}", "?token=%00"):
            status, fields, _ = self.web.get("/" + query)
            self.assertEqual(401, status, query)
            self.assertNotIn("set-cookie", fields)
        self.assertEqual(403, self.web.get("/", self.cookie, Sec_Fetch_Dest="iframe")[0])
        self.assertEqual(403, self.web.get("/", self.cookie, Sec_Fetch_Dest="empty")[0])
        self.assertEqual(403, self.web.get("/", self.cookie, Host="evil.example")[0])
        self.assertEqual(404, self.web.get("/", self.cookie, method="POST")[0])
        self.assertEqual(401, self.web.get("/mcp?token=" + self.web.token, method="POST")[0])

    def test_same_origin(self):
        """the cookie counts for what the page itself asks"""
        post, cookie = self.web.post, self.cookie
        own = f"http://127.0.0.1:{self.web.port}"
        self.assertEqual(200, post(cookie))
        self.assertEqual(200, post(cookie, Sec_Fetch_Site=None))
        self.assertEqual(200, post(f"other=1; {cookie}; more=2"))
        self.assertEqual(200, post(cookie, Host="scb.example", Origin="https://scb.example"))
        for fields in ({"Origin": None}, {"Origin": "http://localhost:9"}, {"Origin": f"http://localhost:{self.web.port}"},
                       {"Origin": "http://127.0.0.1"}, {"Origin": "https://chat.example"}, {"Origin": own + ".evil"},
                       {"Sec_Fetch_Site": "same-site"}, {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "none"}):
            self.assertIn(post(cookie, **fields), (401, 403), fields)
        for origin in ("null", "https://evil.example", ""):
            self.assertEqual(403, post(cookie, Origin=origin), origin)
        self.assertEqual(401, post(None))
        self.assertEqual(401, self.web.legacy("tools/list", Authorization="Bearer no", Cookie=cookie, Origin=own, **BROWSER)[0])

    def test_elsewhere(self):
        """it opens no other door: not the figures, not others' files"""
        self.assertEqual(401, self.web.get("/metrics", self.cookie, **BROWSER)[0])
        self.assertEqual(401, self.web.get("/outputs/o-" + "0" * 32 + "/a.txt", self.cookie, **BROWSER)[0])

    def test_state(self):
        """what the page is told: dashboards and the log, of its principal alone"""
        web = self.web
        handle = web.tool("session", action="open")["structuredContent"]["session"]
        made = web.tool("data_dashboard", session=handle, code="import scb\nscb.title('Mine')\nscb.metric('n', 1)")
        board = made["structuredContent"]["dashboard"]
        state = web.state(self.cookie)
        self.assertEqual(f"uid:{self.place.uid}", state["principal"])
        mine = [d for d in state["dashboards"] if d["id"] == board]
        self.assertEqual([{"id": board, "session": handle, "title": "Mine", "status": "ok"}], mine)
        self.assertEqual({state["principal"]}, {line["principal"] for line in state["lines"]})
        self.assertEqual(sorted(line["seq"] for line in state["lines"]), [line["seq"] for line in state["lines"]])
        self.assertIn("session.open", [line["event"] for line in state["lines"]])
        ana = web.state(web.enter(TOKENS["ana"]))
        self.assertEqual(("token:ana", [], ["page.open"]),
                         (ana["principal"], ana["dashboards"], [line["event"] for line in ana["lines"]]))
        self.assertEqual("token:bob", web.state(web.enter(TOKENS["bob"]))["principal"])
        # by a token, for programs
        self.assertEqual(200, web.ask("GET", "/page/state", Content_Type=None)[0])
        for fields in ({"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "http://localhost:9"}):
            self.assertEqual(401, web.state(self.cookie, **fields), fields)
        self.assertEqual(401, web.state(None))
        web.tool("session", action="close", session=handle)
        self.assertEqual("expired", [d for d in web.state(self.cookie)["dashboards"] if d["id"] == board][0]["status"])

    def test_waits(self):
        """it waits for news, and not for those of others"""
        seq, found = self.web.state(self.cookie)["seq"], []
        wait = threading.Thread(target=lambda: found.append(self.web.state(self.cookie, f"?after={seq}&wait=25")))
        wait.start()
        self.web.enter(TOKENS["ana"])
        time.sleep(1)  # not a proof: time for a wrong answer to come
        self.assertEqual([], found)
        self.web.enter(self.web.token)
        wait.join(20)
        self.assertEqual(["page.open"], [line["event"] for line in found[0]["lines"]])
        began = time.monotonic()
        state = self.web.state(self.cookie, f"?after={found[0]['seq']}&wait=1")
        self.assertEqual([], state["lines"])
        self.assertGreater(time.monotonic() - began, 0.9)

    def test_gone(self):
        """pages that go while they wait leave nothing"""
        for _ in range(20):
            c = http.client.HTTPConnection("127.0.0.1", self.web.port)
            c.request("GET", "/page/state?after=999999999&wait=25", headers={"Cookie": self.cookie})
            c.close()
        self.assertEqual(200, self.web.post(self.cookie))

    def test_sandbox(self):
        """the frame for Apps: its own policy, and no cookie needed"""
        status, fields, body = self.web.get("/sandbox")
        policy = fields["content-security-policy"]
        self.assertEqual(200, status)
        for part in ("default-src 'none'", "connect-src 'none'", "frame-src 'none'", "form-action 'none'", "base-uri 'none'",
                     "frame-ancestors 'self'", "sandbox allow-scripts allow-forms"):
            self.assertIn(part, policy)
        self.assertNotIn("allow-same-origin", policy + body.decode())
        self.assertNotRegex(policy, r"(script|style|img|media)-src[^;]*('self'|http)")

    def test_sums(self):
        """resources/list has the sum of each file"""
        web = self.web
        handle = web.tool("session", action="open")["structuredContent"]["session"]
        web.tool("files", action="write", path="a.txt", content="hello", session=handle)
        out = web.tool("present_output", path="a.txt", session=handle)["structuredContent"]
        listed = json.loads(web.legacy("resources/list")[2])["result"]["resources"]
        self.assertEqual([out["sha256"]], [r["_meta"]["scb/sha256"] for r in listed if r["uri"] == out["uri"]])
        web.tool("session", action="close", session=handle)


class Guessing(unittest.TestCase):
    def test_wrong_tokens(self):
        """who tries tokens at the page waits like anywhere"""
        place = Place()
        web = Pages(place)
        seen = {web.get(f"/?token={i}")[0] for i in range(30)}
        self.assertEqual({401, 429}, seen)
        self.assertEqual(429, web.get(f"/?token={web.token}")[0])
        web.end()

    def test_restart(self):
        """the cookie outlives the broker, and neither another token nor the loss of the key"""
        place = Place()
        port = None
        for step, expected in (("first", None), ("same", 200), ("token", 401), ("key", 401)):
            folder = os.path.join(place.state, "scb")
            if step == "token":
                os.remove(os.path.join(folder, "http-token"))
            if step == "key":
                os.remove(os.path.join(folder, "link-key"))
            web = Pages(place)
            if expected:
                name = f"scb-{web.port}="
                self.assertEqual(expected, web.get("/", cookie.replace(f"scb-{port}=", name))[0], step)
            cookie, port = web.enter(web.token), web.port
            web.end()
        self.assertFalse(os.path.exists(os.path.join(folder, "http-url")))

    def test_no_token(self):
        """--no-token: the page for whoever reaches it"""
        place = Place()
        web = Pages(place, "--no-token")
        self.assertEqual(200, web.get("/")[0])
        self.assertEqual(f"uid:{place.uid}", web.state(None)["principal"])
        self.assertEqual(403, web.post(None, Origin="null"))
        web.end()


class Demo(unittest.TestCase):
    def start(self, place, *arguments):
        process = subprocess.Popen(place.command("demo", *arguments), env=place.environment(TMPDIR=place.run), cwd=place.home,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        return process, said

    @unittest.skipUnless(os.path.exists("/usr/lib/python3/dist-packages/pandas"), "pandas is not installed")
    def test_demo(self):
        """scb demo: an address that opens at the dashboard; Ctrl-C leaves nothing"""
        place = Place()
        before = set(os.listdir("/tmp"))
        process, said = self.start(place)
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/\?token=[0-9a-f]{64}&show=(d-[0-9a-f]{32}))\n", said)
        self.assertTrue(found, said + process.stderr.read() if process.poll() is not None else said)
        c = http.client.HTTPConnection("127.0.0.1", int(found.group(1)), timeout=30)
        c.request("GET", found.group(2))
        r = c.getresponse()
        self.assertIn(f"url=/#{found.group(3)}", r.read().decode())
        c.request("GET", "/page/state", headers={"Cookie": r.getheader("set-cookie").split(";")[0]})
        state = json.loads(c.getresponse().read())
        self.assertEqual([("Bird strikes", "ok", found.group(3))],
                         [(d["title"], d["status"], d["id"]) for d in state["dashboards"]])
        c.close()
        process.send_signal(signal.SIGINT)
        self.assertEqual(0, process.wait(60))
        self.assertEqual("", process.communicate()[1])
        left = [name for name in set(os.listdir("/tmp")) - before if name.startswith("scb-demo-") and
                os.stat(os.path.join("/tmp", name)).st_uid == place.uid]
        self.assertEqual([], left)

    @unittest.skipUnless(os.path.exists("/usr/lib/python3/dist-packages/pandas"), "pandas is not installed")
    def test_opens(self):
        """scb demo on a terminal with a screen: xdg-open gets an address that comes in once"""
        place = Place()
        told = os.path.join(place.home, "told")
        folder = os.path.join(place.home, "bin")
        os.mkdir(folder)
        program = place.file(os.path.join(folder, "xdg-open"), f"#!/bin/sh\necho \"$#$1\" >{told}.new; mv {told}.new {told}\n".encode())
        os.chmod(program, 0o755)
        env = place.environment(TMPDIR=place.run, DISPLAY=":9", PATH=f"{folder}:{os.environ['PATH']}")
        terminal, inside = pty.openpty()
        process = subprocess.Popen(place.command("demo"), env=env, cwd=place.home, stdin=inside, stdout=inside, stderr=inside)
        os.close(inside)
        self.assertTrue(until(lambda: os.path.exists(told), 60))
        with open(told) as f:
            found = re.fullmatch(r"1http://127\.0\.0\.1:(\d+)(/\?.*show=(d-[0-9a-f]{32}))\n", f.read())
        self.assertTrue(found)
        seen = []
        for _ in range(2):
            c = http.client.HTTPConnection("127.0.0.1", int(found.group(1)), timeout=30)
            c.request("GET", found.group(2))
            seen.append(c.getresponse().status)
            c.close()
        self.assertEqual([200, 401], seen)
        process.send_signal(signal.SIGINT)
        self.assertEqual(0, process.wait(60))
        os.close(terminal)

    def test_refused(self):
        """scb demo: what cannot be"""
        place = Place()
        for arguments, status, words in ((("--port", "99999"), 64, "--port"), (("--solo",), 64, "--solo"), (("x",), 64, "x")):
            done = place.scb("demo", *arguments)
            self.assertEqual(status, done.returncode, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual("", done.stdout)
        web = Pages(place)
        done = place.scb("demo", "--port", str(web.port))
        self.assertNotEqual(0, done.returncode)
        self.assertIn(str(web.port), done.stderr)
        web.end()
        self.assertIn("scb demo", place.scb("demo", "--help").stdout)


if __name__ == "__main__":
    harness.main()
