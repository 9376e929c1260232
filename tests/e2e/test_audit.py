"""scb audit verify, tail and export, over the log of a broker that ran something."""
import calendar
import json
import os
import pty
import re
import shutil
import subprocess
import time
import unittest

import harness

# What the schema requires of each class (schema.ocsf.io, 1.5), and of the objects in it.
BASE = ["activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"]
CLASSES = {1007: ["actor", "device", "process"], 2004: ["finding_info"], 6002: ["app"],
           6003: ["actor", "api", "src_endpoint"]}
OBJECTS = {"metadata": ["product", "version"], "device": ["type_id"], "api": ["operation"],
           "finding_info": ["uid", "title"], "app": ["name", "vendor_name"]}
ONE_OF = {"actor": ["process", "user", "invoked_by", "session", "app_name"], "process": ["pid", "uid"],
          "src_endpoint": ["ip", "uid", "name", "hostname"]}


class Audit(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.place = harness.Place()
        self.clients = []
        c = self.serve()
        self.session = c.tool("session", action="open").session
        c.tool("run_command", command="exit 3", session=self.session)
        c.tool("files", action="read", path="\x1b]0;title\x07missing", session=self.session)
        c.tool("session", action="close", session=self.session)
        c.close()
        self.place.end()
        self.log = os.path.join(self.place.state, "scb", "audit.jsonl")

    def tearDown(self):
        for c in self.clients:
            if c.alive():
                c.close()
        self.place.end()
        shutil.rmtree(self.place.top, True)

    def explain(self):
        return "".join(c.explain() for c in self.clients)

    def serve(self, *arguments):
        c = self.place.serve(*arguments)
        self.clients.append(c)
        c.initialize()
        return c

    def audit(self, *arguments, status=0):
        done = self.place.scb("audit", *arguments)
        self.assertEqual(status, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def test_verify(self):
        """verify: exit status 0, and a head that can be kept; then 1, with file, line and number"""
        text = self.audit("verify")
        self.assertIn("as it was written", text)
        head = re.search(r"^head (\d+:[0-9a-f]{64})$", text, re.M).group(1)
        self.audit("verify", "--anchor", head)
        self.assertIn("is not the line of the anchor", self.audit("verify", "--anchor", head[:-64] + "0" * 64, status=1))
        self.assertIn("anchor's line", self.audit("verify", "--anchor", "999999:" + "0" * 64, status=1))
        with open(self.log, "rb") as f:
            good = f.read()
        lines = good.split(b"\n")
        number = next(i for i, line in enumerate(lines) if b'"exec.end"' in line)
        lines[number] = lines[number].replace(b'"exitCode":3', b'"exitCode":0')
        self.write(b"\n".join(lines))
        text = self.audit("verify", status=1)
        self.assertIn(f"audit.jsonl:{number + 1}: seq {number + 1}: this line was changed", text)
        self.assertIn("NOT as it was written", text)
        self.write(good[:-1])
        self.audit("verify", status=1)
        self.write(good)
        self.audit("verify")
        self.audit("verify", self.log)
        self.audit("verify", self.log, "--anchor", head)

    def write(self, data):
        with open(self.log, "r+b") as f:
            f.truncate(0)
            f.write(data)

    def test_wrong_words(self):
        """what is no command, no log, no anchor"""
        self.audit(status=64)
        self.audit("verify", "--anchor", "x", status=64)
        self.audit("tail", "-n", "many", status=64)
        self.audit("export", status=64)
        self.audit("verify", "--state", os.path.join(self.place.home, "nowhere"), status=66)
        self.assertFalse(os.path.exists(os.path.join(self.place.home, "nowhere")))
        self.audit("verify", "/nonexistent", status=66)

    def test_tail(self):
        """tail: columns, filters, the lines as they are, and nothing that a terminal would obey"""
        text = self.audit("tail", "-n", "1000")
        rows = [row.split() for row in text.splitlines()]
        events = self.place.audit()
        self.assertEqual([str(e["seq"]) for e in events], [row[2] for row in rows])
        self.assertEqual([e["event"] for e in events], [row[3] for row in rows])
        self.assertRegex(text, r"(?m)exec\.end .*exit  status 3  [\d.]+ ms")
        self.assertEqual(3, len(self.audit("tail", "-n", "3").splitlines()))
        self.assertEqual([], [c for c in text if c < " " and c != "\n"])
        raw = self.audit("tail", "--json", "--event", "session.*")
        self.assertEqual(["session.open", "session.close"], [json.loads(line)["event"] for line in raw.splitlines()])
        with open(self.log, encoding="utf-8") as f:
            self.assertLessEqual(set(raw.splitlines()), set(f.read().splitlines()))
        for option, value, member in (("--session", self.session, "session"), ("--tool", "files", "tool"),
                                      ("--principal", f"uid:{self.place.uid}", "principal")):
            got = self.audit("tail", "--json", "-n", "1000", option, value)
            self.assertEqual([e["seq"] for e in events if e.get(member) == value],
                             [json.loads(line)["seq"] for line in got.splitlines()])
        self.assertEqual("", self.audit("tail", "--tool", "nothing"))
        self.assertEqual("", self.audit("tail", "--since", "2999-01-01"))
        self.assertEqual(text, self.audit("tail", "-n", "1000", "--since", "2020-01-01"))

    def test_colours(self):
        """colours on a terminal alone"""
        self.assertNotIn("\x1b", self.audit("tail"))
        ours, theirs = pty.openpty()
        try:
            subprocess.run(self.place.command("audit", "tail", "--event", "exec.end"), stdout=theirs, timeout=20,
                           env=self.place.environment(), cwd=self.place.home, check=True)
            self.assertIn(b"\x1b[2m", os.read(ours, 4096))
        finally:
            os.close(ours)
            os.close(theirs)

    def test_follow(self):
        """tail -f: what comes is shown"""
        follower = subprocess.Popen(self.place.command("audit", "tail", "-n", "0", "-f", "--json"), text=True,
                                    env=self.place.environment(), cwd=self.place.home, stdout=subprocess.PIPE)
        try:
            time.sleep(0.5)
            c = self.serve()
            c.tool("session", action="list")
            c.close()
            events = []
            while "tool.end" not in events:
                events.append(json.loads(follower.stdout.readline())["event"])
            self.assertIn("tool.call", events)
        finally:
            follower.kill()
            follower.wait()
            follower.stdout.close()

    def test_ocsf(self):
        """export: each line one event with what the schema requires, and the line itself in it"""
        with open(self.log, encoding="utf-8") as f:
            lines = f.read().splitlines()
        events = [json.loads(line) for line in self.audit("export", "--ocsf").splitlines()]
        self.assertEqual(lines, [e["raw_data"] for e in events])
        for e in events:
            line = json.loads(e["raw_data"])
            for key in BASE + CLASSES[e["class_uid"]]:
                self.assertIn(key, e, line["event"])
            for name, keys in OBJECTS.items():
                for key in keys if name in e else []:
                    self.assertIn(key, e[name], line["event"])
            for name, keys in ONE_OF.items():
                self.assertTrue(name not in e or set(keys) & set(e[name]), line["event"])
            self.assertEqual(e["class_uid"] * 100 + e["activity_id"], e["type_uid"])
            self.assertEqual(e["class_uid"] // 1000, e["category_uid"])
            moment = calendar.timegm(time.strptime(line["ts"][:19], "%Y-%m-%dT%H:%M:%S"))
            self.assertEqual(moment, e["time"] // 1000)
            self.assertEqual(line["owasp"], e["unmapped"]["owasp"])
        by_event = {e["message"]: e for e in events}
        self.assertEqual((1007, 1), (by_event["exec.start"]["class_uid"], by_event["exec.start"]["activity_id"]))
        self.assertEqual((2, 3), (by_event["exec.end"]["status_id"], by_event["exec.end"]["exit_code"]))
        self.assertEqual((6002, 3), (by_event["broker.start"]["class_uid"], by_event["broker.start"]["activity_id"]))

    def test_solo(self):
        """--solo processes have chains of their own, two at a time two, and verify looks at all"""
        a, b = self.serve("--solo"), self.serve("--solo")
        a.tool("session", action="list")
        b.tool("session", action="list")
        a.close()
        b.close()
        text = self.audit("verify")
        for name in ("solo/1/audit.jsonl", "solo/2/audit.jsonl", "scb/audit.jsonl"):
            self.assertRegex(text, name + r": 1 file, \d+ lines, seq 1 to \d+: as it was written")


if __name__ == "__main__":
    harness.main()
