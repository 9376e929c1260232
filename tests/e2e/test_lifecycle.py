#!/usr/bin/python3
"""Beginnings and ends: nothing may stay behind, whatever ends the broker. Of one process (--solo): what
fronts and their broker add is in test_front.py."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

import harness
from harness import alive, descendants, only, until

# An engine takes longer to end a sandbox.
ENDING = 10 if harness.PROVIDER == "docker" else 1


class Ends(unittest.TestCase):
    def setUp(self):
        self.place = harness.Place()
        self.client = None

    def explain(self):
        return self.client.explain() if self.client else ""

    def serve(self, *arguments):
        self.client = self.place.serve("--solo", *arguments)
        self.client.initialize()
        return self.client

    def busy(self):
        """A broker with a kernel, a running command and a background child."""
        c = self.serve()
        c.tool("run_code", language="python", code="x = 1")
        c.tool("run_command", command="setsid sleep 95.5 & setsid nohup sleep 96.5 >/dev/null 2>&1 &")
        c.start("run_command", command="sleep 97.5")
        c.start("run_code", language="python", code="import time; time.sleep(98)")
        self.assertTrue(until(lambda: any("97.5" in harness.command_line(p) for p in self.below(c)), 3 * ENDING))
        return c, self.below(c)

    def below(self, client):
        """Every process that its broker, or the engine for it, has made."""
        return descendants(client.pid) + self.place.in_containers()

    def assertNothingLeft(self, below, *spared):
        self.assertTrue(until(lambda: not self.place.leftovers(below, *spared), ENDING), self.place.leftovers(below, *spared))

    def test_eof(self):
        """end of input in the middle of work: gone promptly, nothing left, exit 0"""
        c, below = self.busy()
        took = c.close()
        if not harness.SANITIZED:
            self.assertLess(took, 2 * ENDING)
        self.assertEqual(0, c.proc.returncode)
        self.assertEqual([], c.faults)
        self.assertNothingLeft(below)

    def test_eof_at_once(self):
        """end of input before anything was said"""
        self.client = self.place.serve("--solo")
        self.assertLess(self.client.close(), 2)
        self.assertEqual(0, self.client.proc.returncode)

    def test_eof_while_starting(self):
        """end of input while a sandbox starts"""
        c = self.serve()
        c.start("run_command", command="sleep 50")
        below = self.below(c)
        self.assertLess(c.close(), 3 * ENDING)
        self.assertNothingLeft(below)

    def test_signals(self):
        """SIGTERM and SIGINT end it as end of input does"""
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                c, below = self.busy()
                began = time.monotonic()
                c.kill(number)
                if not harness.SANITIZED:
                    self.assertLess(time.monotonic() - began, 2 * ENDING)
                self.assertIn(c.proc.returncode, (0, -number, 128 + number))
                self.assertNothingLeft(below)
                c.close()

    def test_stdout_closed(self):
        """a client that reads no more: the broker ends, and is not killed by SIGPIPE"""
        proc = subprocess.Popen(self.place.command("serve", "--solo"), env=self.place.environment(), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
                 "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                "params": {"name": "run_command", "arguments": {"command": "echo unheard"}}}
        proc.stdin.write(json.dumps(hello).encode() + b"\n")
        proc.stdin.flush()
        proc.stdout.readline()
        proc.stdout.close()
        proc.stdin.write(json.dumps(call).encode() + b"\n")
        proc.stdin.flush()
        time.sleep(0.5)
        below = descendants(proc.pid)
        proc.stdin.close()
        self.assertGreaterEqual(proc.wait(5), 0, proc.stderr.read())
        proc.stderr.close()
        self.assertNothingLeft(below)

    def test_session_close(self):
        """a closed session: its handle is unknown at once, everything of it gone within a second"""
        c = self.serve()
        s = c.tool("session", action="open").session
        c.tool("run_code", language="python", code="x = 1", session=s)
        c.tool("run_command", command="setsid sleep 95.25 & disown", session=s)
        below = self.below(c)
        self.assertTrue(below)
        r = c.tool("session", action="close", session=s)
        self.assertFalse(r.is_error, r.text)
        after = c.tool("run_command", command="true", session=s)
        self.assertTrue(after.is_error)
        self.assertIn("session", after.text.lower())
        self.assertIn("open", after.text.lower())
        self.assertNothingLeft(below, c.pid)
        c.close()

    @only("bubblewrap", because="what is half made is known by bubblewrap's arguments; tests/contract kills brokers of the others")
    def test_kill_9_early(self):
        """kill -9 while a sandbox is being made: nothing is stuck half-made, and the next start removes it"""
        place = harness.Place()
        marked = place.folder("marked")  # its path is in bubblewrap's arguments
        os.chmod(marked, 0o755)

        def half_made():
            made = [p for p in os.listdir("/proc") if p.isdigit() and marked in harness.command_line(p)]
            return [p for p in made
                    if alive(p) and not any("scb-agent" in harness.command_line(d) for d in descendants(int(p)))]

        for wait_s in (0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.05):
            c = place.serve("--solo", "--mount", f"m={marked}")
            c.initialize()
            c.start("run_command", command="sleep 100")
            time.sleep(wait_s)
            c.kill(9)
        try:
            self.assertTrue(until(lambda: not half_made(), 5), half_made())
        finally:
            # they would end by themselves after a minute
            ours = [int(p) for p in os.listdir("/proc") if p.isdigit() and marked in harness.command_line(p)]
            for p in {d for p in ours for d in descendants(p)} | set(ours):
                try:
                    os.kill(p, 9)
                except ProcessLookupError:
                    pass  # its namespace's first process has just gone
        # groups that no record names yet are left alone for ten seconds
        self.assertTrue(until(lambda: place.serve("--solo").close() is not None and not place.leftovers(), 25, 0.5),
                        place.leftovers())

    def test_kill_9(self):
        """a broker that is killed with -9: the sandbox dies or is swept by the next start"""
        c, below = self.busy()
        c.kill(9)
        ids = self.place.sandbox_ids()
        self.assertTrue(ids)
        again = self.serve()
        self.assertEqual("next\n", again.tool("run_command", command="echo next").stdout)
        self.assertTrue(until(lambda: not [p for p in below if alive(p)], 5),
                        [harness.command_line(p) for p in below if alive(p)])
        now = self.below(again)
        again.close()
        self.assertNothingLeft(below + now)
        self.assertTrue(ids < self.place.sandbox_ids())

    def test_ten_sessions(self):
        """sessions that come and go leave no descriptor, process or folder"""
        c = self.serve()

        def cycle():
            s = c.tool("session", action="open").session
            self.assertEqual("1\n", c.tool("run_command", command="echo 1", session=s).stdout)
            c.tool("session", action="close", session=s)

        def held():
            try:
                return len(os.listdir(f"/proc/{c.pid}/fd"))
            except PermissionError:  # a broker cannot be looked into by its own user
                return 0

        cycle()
        until(lambda: not self.place.leftovers((), c.pid), ENDING)
        before = held()
        for _ in range(10):
            cycle()
        self.assertTrue(until(lambda: held() <= before and not descendants(c.pid), 2 * ENDING),
                        (before, held(), descendants(c.pid)))
        c.close()
        self.assertNothingLeft([])

    @only("bubblewrap", "local", because="an engine sees another /run than this broker does, where the sandbox's door is")
    @unittest.skipUnless(harness.MODE == "root", "an ordinary user's broker uses nothing below /run/scb")
    def test_first_of_a_machine(self):
        """a root broker with nothing in /run yet, its programs where only root may go"""
        self.place.prefix = [*harness.ELSEWHERE, "run"]
        hidden = self.place.folder("hidden", "bin")
        os.chmod(os.path.dirname(hidden), 0o700)
        for name in ("scb", "scb-agent"):
            shutil.copy2(os.path.join(self.place.bin, name), hidden)
        shutil.copytree(os.path.join(self.place.bin, "kernels"), os.path.join(hidden, "kernels"),
                        ignore=shutil.ignore_patterns("meson*", "*.p"))
        self.place.bin = hidden
        # uids of its own: claims of brokers that see another /run are not seen here
        for env in ({}, {"XDG_RUNTIME_DIR": None}):
            c = self.client = self.place.serve("--solo", **env, SCB_UID_RANGE="2000200000-2000200003")
            c.initialize()
            r = c.tool("run_code", language="python", code="6 * 7")
            self.assertFalse(r.is_error, r.text)
            self.assertEqual("42", r.results[0]["mime"]["text/plain"])
            c.close()

    def test_audit(self):
        """everything that ran stands in the audit log: start before end, with ids and no secret"""
        c = self.serve()
        c.tool("run_command", command="echo hello; exit 4")
        c.tool("files", action="write", path="o.txt", content="x")
        c.tool("present_output", path="o.txt")
        c.tool("present_output", path="../etc/passwd")
        c.close()
        events = self.place.audit()
        names = [e["event"] for e in events]
        self.assertLess(names.index("exec.start"), names.index("exec.end"))
        self.assertIn("session.open", names)
        self.assertTrue({"file.present", "file.refused"} <= set(names) or "file.present" in names, names)
        end = next(e for e in events if e["event"] == "exec.end")
        self.assertEqual((4, "exit"), (end["exitCode"], end["exitReason"]))
        level = {"local": "subprocess"}.get(harness.PROVIDER, "container+gvisor" if harness.GVISOR else "container")
        for e in events:
            self.assertTrue(e["ts"] and isinstance(e["seq"], int), e)
            if e.get("tool") or e["event"].startswith("session."):
                self.assertEqual(harness.PROVIDER, e["provider"], e)
                self.assertEqual(level, e["isolationLevel"], e)
        start = next(e for e in events if e["event"] == "exec.start")
        asked = '{" tool":"run_command","command":"echo hello; exit 4"}'  # as SPEC.md says
        self.assertEqual(hashlib.sha256(asked.encode()).hexdigest(), start["sha256"])
        opened = next(e for e in events if e["event"] == "session.open")
        self.assertEqual(1 << 30, opened["limits"]["memoryBytes"])
        self.assertEqual(256, opened["limits"]["processes"])
        info = self.serve().tool("session", action="open")
        self.assertEqual(info.data["enforced"], opened["enforced"])
        seqs = [e["seq"] for e in events]
        self.assertEqual(sorted(seqs), seqs)
        self.assertNotIn(harness.CANARY, str(events))
        for path in [os.path.join(w, n) for w, _, ns in os.walk(self.place.state) for n in ns]:
            self.assertEqual(0, os.stat(path).st_mode & 0o077, path)


class CommandLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = harness.Place()

    def test_version_and_help(self):
        """--version and --help"""
        done = self.place.scb("--version")
        self.assertEqual(0, done.returncode)
        self.assertRegex(done.stdout, r"^scb \d+\.\d+\.\d+")
        done = self.place.scb("--help")
        self.assertEqual(0, done.returncode)
        for word in ("serve", "run", "doctor", "--mount", "BROKER_PROVIDER"):
            self.assertIn(word, done.stdout)

    def test_doctor(self):
        """doctor names each provider: usable, or the fix"""
        done = self.place.scb("doctor")
        self.assertIn("bubblewrap", done.stdout)
        self.assertIn("local", done.stdout)
        ours = done.stdout.split("\n\n")[1]
        if "usable" in ours and "not usable" not in ours:
            limited = all(re.search(rf"{name} +cgroup", ours) for name in ("memory", "cpu"))
            self.assertEqual(not limited, "Delegate=yes" in ours, ours)

    def test_run(self):
        """scb run: prints what the code prints, exits as it does"""
        done = self.place.scb("run", "-c", "print(6 * 7)")
        self.assertEqual((0, "42\n"), (done.returncode, done.stdout), done.stderr)
        path = self.place.file(os.path.join(self.place.home, "x.py"), b"import sys; print('e', file=sys.stderr); sys.exit(3)")
        done = self.place.scb("run", path)
        self.assertEqual(3, done.returncode, done.stderr)
        self.assertIn("e", done.stderr)


if __name__ == "__main__":
    harness.main()
