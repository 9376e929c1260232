#!/usr/bin/python3
"""`/outputs/` of `scb serve --http`: presented files by link or by token."""
import base64
import json
import os
import re
import socket
import unittest

import harness
from harness import Place
from web import Web


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


if __name__ == "__main__":
    harness.main()
