#!/usr/bin/python3
"""Attacks on the audit log: by whoever can write its files, at rest and while a broker writes, and by brokers' deaths."""
import json
import os
import re
import shutil
import signal
import threading
import time
import unittest

import attack  # noqa: F401  (where harness is)
import harness
from harness import until


class Logs(unittest.TestCase):
    def setUp(self):
        self.place = harness.Place()
        self.clients = []
        self.state = os.path.join(self.place.state, "scb")
        self.log = os.path.join(self.state, "audit.jsonl")

    def tearDown(self):
        for c in self.clients:
            if c.alive():
                c.close()
        self.place.end()
        shutil.rmtree(self.place.top, True)

    def serve(self, *arguments, **env):
        c = self.place.serve(*arguments, **env)
        self.clients.append(c)
        c.initialize()
        return c

    def verify(self, *arguments, state=None):
        done = self.place.scb("audit", "verify", "--state", state or self.state, *arguments)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done

    def good(self, *arguments, **more):
        done = self.verify(*arguments, **more)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done

    def lines(self):
        with open(self.log, "rb") as f:
            return f.read().splitlines(keepends=True)

    def write(self, lines):
        """In place, as the owner could."""
        with open(self.log, "r+b") as f:
            f.truncate()
            f.write(b"".join(lines))


class AtRest(Logs):
    """Nothing writes the log; somebody changes it."""

    def setUp(self):
        super().setUp()
        c = self.serve()
        for i in range(4):
            c.tool("run_command", command=f"exit {i}")
        c.tool("present_output", path="missing")
        c.close()
        self.place.end()
        self.good()
        self.kept = self.lines()
        self.assertGreater(len(self.kept), 15)

    def found(self, lines, what, at=None):
        """verify finds it, and names the line (counted from 1) or one beside it."""
        self.write(lines)
        done = self.verify()
        self.assertEqual(1, done.returncode, f"{what}: not found")
        if at is not None:
            places = [int(n) for n in re.findall(r"audit\.jsonl:(\d+):", done.stdout)]
            self.assertTrue(places and abs(places[0] - at) <= 1, f"{what} at line {at}: {done.stdout}")
        self.write(self.kept)
        return done.stdout

    def test_lines(self):
        """a line edited, deleted, doubled, moved, split, forged; each is found, with its place"""
        k = self.kept
        for i in (0, 1, len(k) // 2, len(k) - 2, len(k) - 1):
            with self.subTest(line=i + 1, of=len(k)):
                self.found(k[:i] + k[i + 1:], "deleted", i + 1)
                self.found(k[:i] + [k[i].replace(b'"owasp":["', b'"owasp":["X', 1)] + k[i + 1:], "edited", i + 1)
                self.found(k[:i] + [k[i], k[i]] + k[i + 1:], "doubled", i + 2)
                self.found(k[:i] + [k[i].replace(b'"ts":"2', b'"ts":"1', 1)] + k[i + 1:], "another time", i + 1)
                self.found(k[:i] + [k[i][:-2] + b"} \n"] + k[i + 1:], "a blank", i + 1)
                self.found(k[:i] + [b"\n"] + k[i:], "an empty line", i + 1)
                if i + 1 < len(k):
                    self.found(k[:i] + [k[i + 1], k[i]] + k[i + 2:], "moved", i + 1)
                forged = json.loads(k[i])
                forged["event"] = "tool.call"
                self.found(k[:i] + [json.dumps(forged, separators=(",", ":")).encode() + b"\n"] + k[i:], "forged", i + 1)

    def test_every_byte(self):
        """one byte changed, all over the log"""
        whole = b"".join(self.kept)
        for at in range(0, len(whole), max(1, len(whole) // 60)):
            changed = bytearray(whole)
            changed[at] ^= 1
            with self.subTest(byte=at):
                self.found([bytes(changed)], "changed")

    def test_ends(self):
        """a cut tail, a cut beginning, the whole log gone, put in another's place, rewritten with right hashes"""
        k = self.kept
        for n in (1, 2, len(k) // 2, len(k) - 1):
            self.found(k[:-n], f"{n} lines cut off", len(k) - n)
            self.found(k[n:], f"{n} lines cut away", 1)
        self.found([], "emptied")
        self.found([b"".join(k)[:-10]], "cut within a line")
        os.rename(self.log, self.log + ".away")
        self.assertEqual(1, self.verify().returncode)
        os.rename(self.log + ".away", self.log)
        other = self.place.folder("other")
        c = self.serve("--state", other)
        c.tool("run_command", command="true")
        c.close()
        self.place.end()
        self.good(state=other)
        with open(os.path.join(other, "audit.jsonl"), "rb") as f:
            self.found(f.read().splitlines(keepends=True), "another chain's")
        self.found(self.chained([b for b in k if b'"exec.start"' not in b]), "rewritten")

    @staticmethod
    def chained(lines):
        """The lines again with numbers and hashes that are right, as far as one can without the key."""
        import hashlib
        out, prev = [], json.loads(lines[0])["prev"]
        for i, line in enumerate(lines):
            line = re.sub(rb'"seq":\d+,"prev":"[0-9a-f]+"', b'"seq":%d,"prev":"%s"' % (i + 1, prev.encode()), line, count=1)
            prev = hashlib.sha256(line.rstrip(b"\n")).hexdigest()
            out.append(line)
        return out

    def test_head(self):
        """the head changed, emptied, taken away, another's"""
        head = os.path.join(self.state, "audit.head")
        with open(head, "rb") as f:
            kept = f.read()
        for name, data in (("emptied", b""), ("zeros", bytes(len(kept))), ("other", os.urandom(len(kept))), ("a byte", kept[:20] + bytes([kept[20] ^ 1]) + kept[21:4096 + 20] + b"!" + kept[4096 + 21:])):
            with self.subTest(name=name):
                with open(head, "r+b") as f:
                    f.truncate()
                    f.write(data)
                self.assertEqual(1, self.verify().returncode)
        os.remove(head)
        self.assertEqual(1, self.verify().returncode)
        with open(head, "wb") as f:
            f.write(kept)
        self.good()

    def test_rollback(self):
        """log and head put back together: only a line that was kept elsewhere shows it"""
        said = self.good().stdout
        old = self.place.folder("old")
        for name in ("audit.jsonl", "audit.head"):
            shutil.copy2(os.path.join(self.state, name), old)
        c = self.serve()
        c.tool("run_command", command="echo what is to be forgotten")
        c.close()
        self.place.end()
        said = self.good().stdout
        last = json.loads(self.lines()[-1])["seq"]
        anchor = re.search(rf"\b{last}:[0-9a-f]{{64}}", said)
        self.assertTrue(anchor, said)
        self.good("--anchor", anchor.group())
        for name in ("audit.jsonl", "audit.head"):
            shutil.copy2(os.path.join(old, name), self.state)
        self.good()  # as docs/threat-model.md says
        self.assertEqual(1, self.verify("--anchor", anchor.group()).returncode)

    def test_goes_on(self):
        """a broker that finds a changed log says so in it and goes on in a new file; the old one stays"""
        for change in (lambda k: k[:-3], lambda k: k + [k[-1]], lambda k: []):
            with self.subTest(change=change):
                before = len(self.everything())
                self.write(change(self.lines()))
                c = self.serve()
                self.assertFalse(c.tool("run_command", command="true").is_error)
                c.close()
                self.place.end()
                self.assertTrue([e for e in self.everything() if e["event"] == "audit.gap"], before)
                self.assertEqual(1, self.verify().returncode, "the gap is a finding for ever")

    def everything(self):
        events = []
        for name in sorted(os.listdir(self.state)):
            if name.startswith("audit") and name.endswith(".jsonl"):
                with open(os.path.join(self.state, name)) as f:
                    events += [json.loads(line) for line in f]
        return events


class Live(Logs):
    """While a broker writes."""

    def after(self, c, attack):
        """The attack, then calls: each is on record, or was refused; never is anything done unrecorded
        later than a look at the log is old (LOOK_US; what was done until then, verify finds)."""
        attack()
        time.sleep(0.02)
        ran = []
        for i in range(3):
            r = c.tool("run_command", command=f"echo ran{i}")
            if r.is_error:
                self.assertIn("audit", r.text)
            else:
                ran.append(r.job)
        text = b""
        for name in os.listdir(self.state):
            path = os.path.join(self.state, name)
            if name.startswith("audit") and os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as f:
                    text += f.read()
        for job in ran:
            self.assertIn(job.encode(), text)

    def test_replaced(self):
        """the log is cut, taken away, made a link, a FIFO, a folder, written to, while it is written"""
        target = self.place.file(os.path.join(self.place.home, "target"), b"")

        def gone():
            if os.path.isdir(self.log) and not os.path.islink(self.log):
                os.rmdir(self.log)
            elif os.path.lexists(self.log):
                os.remove(self.log)

        def append():
            with open(self.log, "ab") as f:
                f.write(b'{"ts":"2026-01-01T00:00:00.000000Z","seq":1,"event":"forged"}\n')
        attacks = {"cut": lambda: os.truncate(self.log, 100), "emptied": lambda: os.truncate(self.log, 0), "gone": gone, "appended": append,
                   "link": lambda: (gone(), os.symlink(target, self.log)), "fifo": lambda: (gone(), os.mkfifo(self.log)),
                   "folder": lambda: (gone(), os.mkdir(self.log))}
        for name, attack in attacks.items():
            with self.subTest(attack=name):
                state = self.state
                c = self.serve()
                c.tool("run_command", command="true")
                self.after(c, attack)
                self.assertEqual(0, os.path.getsize(target))
                self.assertEqual({}, c.request("ping").result(5))
                c.close()
                self.place.end()
                self.assertNotEqual(0, self.place.scb("audit", "verify", "--state", state).returncode)
                shutil.rmtree(state)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a process a small disk of its own")
    def test_full(self):
        """the disk is full: nothing runs, with that reason; what ran is recorded; it goes on when there is room"""
        mount = f"mount -t tmpfs -o size=600k,mode=700,uid={self.place.uid} none {self.place.state} && exec \"$@\""
        self.place.prefix = ["unshare", "-m", "sh", "-c", mount, "sh", *self.place.prefix]
        c = self.serve("--solo")
        self.assertFalse(c.tool("run_command", command="true").is_error)
        job = c.tool("run_command", command="sleep 2; echo done", wait_s=0).job
        inside = f"/proc/{c.proc.pid}/root{self.place.state}"
        filler = os.path.join(inside, "filler")
        with open(filler, "wb", buffering=0) as f:
            try:
                while f.write(bytes(4096)):
                    pass
            except OSError:
                pass
        refused = None
        for i in range(400):
            r = c.tool("run_command", command=f"touch ran-{i}")
            if r.is_error:
                refused = i
                self.assertIn("audit", r.text)
                break
        self.assertIsNotNone(refused)
        r = c.tool("job", action="wait", job=job, wait_s=10)
        self.assertTrue(r.is_error or r.stdout == "done\n", str(r))
        os.remove(filler)
        r = c.tool("run_command", command="ls")
        self.assertFalse(r.is_error, r.text)
        self.assertNotIn(f"ran-{refused}\n", r.stdout)
        logs = [os.path.join(w, "audit.jsonl") for w, _, ns in os.walk(inside) if "audit.jsonl" in ns]
        with open(logs[0]) as f:
            events = [json.loads(line) for line in f]
        self.assertEqual({e["job"] for e in events if e["event"] == "exec.start"}, {e["job"] for e in events if e["event"] == "exec.end"})

    def test_killed(self):
        """brokers killed with -9 under load, twenty times: the log verifies, with each run's beginning and end"""
        c = self.serve()
        c.tool("run_command", command="true")
        stop = threading.Event()

        def load():
            while not stop.is_set():
                c.tool("run_command", argv=["/bin/true"])
        threads = [threading.Thread(target=load) for _ in range(4)]
        for t in threads:
            t.start()
        for i in range(20):
            time.sleep(0.05 + 0.017 * i)
            pid = self.place.broker()
            if pid:
                os.kill(pid, signal.SIGKILL)
        stop.set()
        for t in threads:
            t.join(60)
        self.assertFalse(c.tool("run_command", command="true").is_error)
        c.close()
        self.place.end()
        self.good()
        events = self.place.audit()
        starts = [e["job"] for e in events if e["event"] == "exec.start"]
        ends = [e["job"] for e in events if e["event"] == "exec.end"]
        self.assertEqual(len(starts), len(set(starts)))
        self.assertEqual(set(starts), set(ends))
        self.assertEqual(len(ends), len(set(ends)))

    def test_two_writers(self):
        """several brokers and lone processes of one state directory: a chain each, none mixed"""
        c = self.serve()
        solos = [self.serve("--solo") for _ in range(3)]
        for i in range(10):
            for s in [c, *solos]:
                self.assertFalse(s.tool("run_command", command=f"echo {i}").is_error)
        for s in solos:
            s.close()
        c.close()
        self.place.end()
        self.good()

    def test_quoted(self):
        """what a log line quotes of a request stays within it, and does nothing to a terminal"""
        c = self.serve()
        bad = 'x"},\n{"ts":"2026-01-01T00:00:00.000000Z","seq":1,"prev":"","event":"exec.start"}\n\x1b]52;c;aGk=\x07\u202e\u2028'
        c.tool("present_output", path=bad)
        c.tool("present_output", path=bad.replace("\n", "").replace("\x1b", "").replace("\x07", ""))
        c.tool("files", action="read", path=bad, session=bad)
        c.close()
        self.place.end()
        self.good()
        with open(self.log, "rb") as f:
            data = f.read()
        self.assertNotRegex(data, b"[^\\n -~]")
        done = self.place.scb("audit", "tail", "-n", "100", "--state", self.state)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotRegex(done.stdout, "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2028]")


if __name__ == "__main__":
    harness.main()
