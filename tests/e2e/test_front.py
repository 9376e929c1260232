#!/usr/bin/python3
"""Fronts and their broker: one broker a user and state directory, whatever happens to its hosts and to it."""
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

import harness
from harness import alive, descendants, until
from mcpclient import Client

HELLO, MESSAGE, BYE, CONTROL = 1, 2, 3, 4
WELCOME, REFUSED, ANSWER = 65, 66, 67


def frame(kind, payload=b""):
    return struct.pack(">IB", 1 + len(payload), kind) + payload


def hello(**more):
    return frame(HELLO, json.dumps({"protocol": [1, 1], "build": "0.0.1", "kind": "serve", "front": "00" * 16, **more}).encode())


def read_frame(sock):
    """(type, payload), or None at the end of the stream."""
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
        try:
            piece = sock.recv(4 - len(data) if len(data) < 4 else 4 + struct.unpack(">I", data[:4])[0] - len(data))
        except ConnectionResetError:
            return None
        if not piece:
            return None
        data += piece
    return data[4], data[5:]


class Fronts(unittest.TestCase):
    def setUp(self):
        self.place = harness.Place()
        self.clients = []

    def tearDown(self):
        for c in self.clients:
            if c.alive():
                c.close()
        self.place.end()
        for c in self.clients:
            self.assertEqual([], c.faults)
        if not until(lambda: not self.place.leftovers(), 2):  # names that a killed broker left: the next scb's
            self.place.serve("--solo").close()
        self.assertEqual([], self.place.leftovers())
        shutil.rmtree(self.place.top, True)

    def explain(self):
        log = os.path.join(self.place.state, "scb", "broker.log")
        text = "".join(c.explain() for c in self.clients)
        return text + (open(log).read()[-3000:] if os.path.exists(log) else "")

    def serve(self, *arguments, initialize=True, **env):
        c = self.place.serve(*arguments, **env)
        self.clients.append(c)
        if initialize:
            c.initialize()
        return c

    def other(self, name, *arguments):
        """A front of another build of the program."""
        path = os.path.join(self.place.bin, "scb-" + name)
        if self.place.bin != harness.BUILD:
            shutil.copy2(os.path.join(harness.BUILD, "tests", "e2e", "scb-" + name), path)
        else:
            path = os.path.join(harness.BUILD, "tests", "e2e", "scb-" + name)
        env = self.place.environment(SCB_AGENT=os.path.join(self.place.bin, "scb-agent"),
                                     SCB_KERNELS=os.path.join(self.place.bin, "kernels"))
        c = Client([*self.place.prefix, path, "serve", "--limit", "pool=0", *arguments], env, cwd=self.place.home)
        c.server = self.place.broker
        self.clients.append(c)
        return c

    def address(self):
        with open(os.path.join(self.place.state, "scb", "broker.json")) as f:
            return json.load(f)

    def kill_broker(self, number=9):
        pid = self.place.broker()
        os.kill(pid, number)
        self.assertTrue(until(lambda: not alive(pid), 5))
        return pid

    def connect(self):
        """A connection to the broker's socket, as its own user."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(10)
        uid = os.geteuid()
        os.seteuid(self.place.uid)
        try:
            s.connect(self.address()["socket"])
        finally:
            os.seteuid(uid)
        return s

    def refused(self, status, *arguments, timeout=60, **env):
        """`scb serve` ends with this status and one line on stderr, which is returned."""
        done = self.place.scb("serve", *arguments, timeout=timeout, **env)
        self.assertEqual((status, ""), (done.returncode, done.stdout), done.stderr)
        self.assertRegex(done.stderr, r"\Ascb: [^\n]+\n\Z")
        return done.stderr

    def sleeps(self, seconds):
        """Processes of this test program's own; the other programs beside it have other fractions."""
        word = f"sleep {seconds}.{os.getpid()}"
        return [p for p in os.listdir("/proc") if p.isdigit() and word in harness.command_line(p)]

    # -- starting

    def test_start_race(self):
        """ten fronts at once: one broker, ten answers"""
        for _ in range(3):
            clients = [self.serve(initialize=False) for _ in range(10)]
            calls = [c.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                              "clientInfo": {"name": "t", "version": "1"}}) for c in clients]
            for call in calls:
                self.assertEqual("scb", call.result(20)["serverInfo"]["name"])
            self.assertEqual(1, len({c.pid for c in clients}))
            self.assertEqual(1, [e["event"] for e in self.place.audit()].count("broker.start"))
            for c in clients:
                c.close()
            self.place.end()
            for name in ("audit.jsonl", "audit.head"):
                os.remove(os.path.join(self.place.state, "scb", name))

    def test_two_states(self):
        """two state directories side by side: two brokers that know nothing of each other"""
        a, b = self.serve(), self.serve("--state", self.place.folder("home", "other"))
        self.assertNotEqual(a.pid, b.pid)
        session = a.tool("session", action="open").session
        self.assertTrue(b.tool("run_command", command="true", session=session).is_error)
        self.assertEqual("1\n", a.tool("run_command", command="echo 1", session=session).stdout)
        self.assertEqual("2\n", b.tool("run_command", command="echo 2").stdout)

    def test_no_runtime_dir(self):
        """without XDG_RUNTIME_DIR: /tmp/scb-UID of mode 0700 (root: /run/scb)"""
        c = self.serve(XDG_RUNTIME_DIR=None)
        if harness.MODE == "root":
            self.assertTrue(self.address()["socket"].startswith("/run/scb/b-"), self.address())
        else:
            top = f"/tmp/scb-{self.place.uid}"
            self.addCleanup(shutil.rmtree, top, True)
            self.assertTrue(self.address()["socket"].startswith(top + "/b-"), self.address())
            st = os.lstat(top)
            self.assertEqual((self.place.uid, 0o40700), (st.st_uid, st.st_mode))
        st = os.lstat(os.path.dirname(self.address()["socket"]))
        self.assertEqual((self.place.uid, 0o40700), (st.st_uid, st.st_mode))
        self.assertEqual("1\n", c.tool("run_command", command="echo 1").stdout)

    @unittest.skipUnless(harness.MODE == "user" and os.geteuid() == 0, "another user's folder is made by root")
    def test_foreign_runtime_dir(self):
        """/tmp/scb-UID of somebody else, or open to others, is not used, and the remedy is said"""
        top = f"/tmp/scb-{self.place.uid}"
        self.addCleanup(shutil.rmtree, top, True)
        os.mkdir(top)
        for owner, mode in ((0, 0o777), (self.place.uid, 0o777)):
            os.chmod(top, mode)
            os.chown(top, owner, owner)
            said = self.refused(74, XDG_RUNTIME_DIR=None)
            for word in (top, "remove it", "XDG_RUNTIME_DIR"):
                self.assertIn(word, said)
        os.rmdir(top)
        os.symlink(self.place.folder("elsewhere"), top)
        self.addCleanup(os.unlink, top)
        self.assertIn("remove it", self.refused(74, XDG_RUNTIME_DIR=None))

    def test_what_a_broker_is_given(self):
        """nothing of its starter's: no environment but what is listed, no descriptor, no session, no terminal"""
        c = self.serve(SECRET_OF_HOST=harness.CANARY)
        pid = c.pid
        self.assertNotEqual(pid, c.proc.pid)
        self.assertNotEqual(os.getsid(c.proc.pid), os.getsid(pid))
        self.assertNotIn(pid, descendants(c.proc.pid))
        self.assertNotIn(harness.CANARY, harness.command_line(pid))
        if os.geteuid() == 0:  # nobody else may look into it
            with open(f"/proc/{pid}/environ", "rb") as f:
                names = {v.split(b"=")[0].decode() for v in f.read().split(b"\0") if v}
            self.assertLessEqual({"HOME", "PATH", "XDG_STATE_HOME"}, names)
            self.assertEqual(set(), {n for n in names if "SECRET" in n or n == "BROKER_PROVIDER"})
            fds = {int(n): os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}
            self.assertEqual(["/dev/null", "/dev/null", os.path.join(self.place.state, "scb", "broker.log")],
                             [fds[n] for n in range(3)])
            self.assertEqual("/", os.readlink(f"/proc/{pid}/cwd"))
        else:
            self.assertRaises(PermissionError, open, f"/proc/{pid}/environ")

    def test_not_by_hand(self):
        """scb broker is not for people"""
        done = self.place.scb("broker")
        self.assertEqual((64, ""), (done.returncode, done.stdout))
        self.assertIn("not by hand", done.stderr)

    # -- hosts that go

    def test_group_killed(self):
        """the host's whole process group is killed: broker and sandboxes live on"""
        script = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
        host = Client([*self.place.prefix, sys.executable, "-c", script, os.path.join(self.place.bin, "scb"),
                       "serve", "--limit", "pool=0"], self.place.environment(), cwd=self.place.home)
        host.server = self.place.broker
        self.clients.append(host)
        host.initialize()
        session = host.tool("session", action="open").session
        host.tool("run_code", language="python", code="x = 41", session=session)
        broker = host.pid
        os.killpg(host.proc.pid, signal.SIGKILL)
        host.proc.wait()
        self.assertTrue(until(lambda: not host.reader.is_alive(), 5))
        c = self.serve()
        self.assertEqual(broker, c.pid)
        self.assertEqual("42", c.tool("run_code", language="python", code="x + 1", session=session).results[0]["mime"]["text/plain"])

    def host_goes(self, go):
        c = self.serve()
        broker = c.pid
        session = c.tool("run_code", language="python", code="x = 41").session
        c.start("run_command", command=f"sleep 197.{os.getpid()}")
        self.assertTrue(until(lambda: self.sleeps(197), 5))
        go(c)
        self.assertTrue(until(lambda: not self.sleeps(197), 5), "what nobody waits for goes on")
        again = self.serve()
        self.assertEqual(broker, again.pid)
        listed = self.place.scb("sessions", "list").stdout
        self.assertIn(session, listed)
        r = again.tool("run_code", language="python", code="x + 1", session=session)
        self.assertEqual("42", r.results[0]["mime"]["text/plain"], str(r))

    def test_waits_asleep(self):
        """a front keeps a processor busy for a moment of a call at most, and not at all without one"""
        c = self.serve()
        c.tool("run_command", command="true")

        def used():
            with open(f"/proc/{c.proc.pid}/schedstat") as f:
                return int(f.read().split()[0]) / 1e9

        for what in ("sleep 2", None):
            before = used()
            if what:
                c.tool("run_command", command=what)
            else:
                time.sleep(2)
            self.assertLess(used() - before, 0.02 * harness.SLOW, what)

    def test_host_closes_stdin(self):
        """a host that ends: its calls are cancelled, its session lives on"""
        self.host_goes(lambda c: self.assertLess(c.close(), 3))

    def test_front_killed(self):
        """a front that is killed: the same"""
        self.host_goes(lambda c: c.kill(9))

    def test_goes_by_itself(self):
        """no front and no session: the broker goes after a few seconds, and leaves nothing"""
        c = self.serve()
        session = c.tool("session", action="open").session
        broker = c.pid
        c.close()
        time.sleep(4.5)
        self.assertTrue(alive(broker), "it has a session")
        self.assertIn("closed 1 session", self.place.scb("sessions", "close", session).stdout)
        self.assertTrue(until(lambda: not alive(broker), 10))
        self.assertEqual([], self.place.leftovers())
        self.assertEqual(["audit.head", "audit.jsonl", "broker.log", "lock", "runtime", "store"],
                         sorted(os.listdir(os.path.join(self.place.state, "scb"))))
        self.assertEqual(["session.close"], [e["event"] for e in self.place.audit()][-1:])

    # -- brokers that go

    def test_exiting_broker(self):
        """a front that meets a broker which is ending waits for the end, and starts the next"""
        for i in range(10):
            self.serve().close()
            broker = self.place.broker()
            os.kill(broker, signal.SIGTERM)
            clients = [self.serve(initialize=False) for _ in range(3)]
            for c in clients:
                c.initialize(timeout=20)
            self.assertEqual(1, len({c.pid for c in clients}))
            self.assertNotEqual(broker, clients[0].pid)
            with socket.socket(socket.AF_UNIX) as s:  # nobody took the new one's socket away
                s.connect(self.address()["socket"])
            for c in clients:
                c.close()

    def test_broker_killed(self):
        """the broker is killed with -9: what was asked is answered by the next, options and all"""
        folder = self.place.folder("data")
        os.chmod(folder, 0o755)
        self.place.file(os.path.join(folder, "f"), b"mounted\n")
        c = self.serve("--mount", f"m={folder}")
        c.tool("run_command", command="true")
        call = c.start("run_command", command="sleep 1; echo done")
        time.sleep(0.3)
        before = self.kill_broker()
        self.assertEqual("done\n", c.finish(call).stdout)
        self.assertNotEqual(before, c.pid)
        self.assertEqual("mounted\n", c.tool("files", action="read", path="/mnt/m/f").data["text"])
        self.assertEqual(2, [e["event"] for e in self.place.audit()].count("broker.start"))

    def test_row_40(self):
        """the broker is killed with -9 while a cell prints: each line comes once, with an idempotency key and without"""
        code = "import time\nfor i in range(30):\n    print(i, flush=True)\n    time.sleep(.1)\nx = 41"
        lines = "".join(f"{i}\n" for i in range(30))
        c = self.serve()
        for key in ({}, {"idempotency_key": "row 40"}):
            session = c.tool("session", action="open").session
            call = c.start("run_code", language="python", code=code, session=session, **key)
            time.sleep(1.5)
            self.kill_broker()
            r = c.finish(call)
            self.assertEqual(("done", lines, 0), (r.status, r.stdout, r.exitCode), str(r))
            self.assertEqual("42", c.tool("run_code", code="x + 1", session=session).results[0]["mime"]["text/plain"])
            if key:
                again = c.tool("run_code", language="python", code=code, session=session, **key)
                self.assertEqual((r.job, lines), (again.job, again.stdout), str(again))
                self.assertLess(again.took, 2)
            ends = [e for e in self.place.audit() if e["event"] == "exec.end" and e.get("job") == r.job]
            self.assertEqual(1, len(ends), ends)

    def test_default_session_kept(self):
        """the connection's own session is the same with the next broker, variables, files and jobs"""
        c = self.serve()
        session = c.tool("run_code", language="python", code="x = 41").session
        c.tool("files", action="write", path="f", content="kept")
        job = c.tool("run_command", command="sleep 2; echo late", wait_s=0.1).job
        self.kill_broker()
        r = c.tool("run_code", language="python", code="x + 1")
        self.assertEqual((session, "42"), (r.session, r.results[0]["mime"]["text/plain"]), str(r))
        self.assertEqual("kept", c.tool("files", action="read", path="f").data["text"])
        self.assertEqual("late\n", c.tool("job", action="wait", job=job).stdout)
        self.assertIn(session, self.place.scb("sessions", "list").stdout)

    def test_key_outlives_front(self):
        """a call with an idempotency key is not cancelled by the end of its front; another one gets its answer"""
        a = self.serve("--name", "desk")
        session = a.tool("session", action="open").session
        arguments = {"command": "sleep 2; date +%N; echo once >>f", "session": session, "idempotency_key": "k"}
        a.start("run_command", **arguments)
        self.assertTrue(until(lambda: any(e["event"] == "exec.start" for e in self.place.audit()), 5))
        a.kill(9)
        b = self.serve("--name", "desk")
        first = b.tool("run_command", **arguments)
        self.assertEqual(("done", 0), (first.status, first.exitCode), str(first))
        self.assertEqual(first.stdout, b.tool("run_command", **arguments).stdout)
        other = self.serve("--name", "shelf")  # another host: another key of the same name
        self.assertNotEqual(first.job, other.tool("run_command", **arguments).job)
        self.assertEqual("once\nonce\n", b.tool("files", action="read", path="f", session=session).data["text"])

    def test_idle_broker_killed(self):
        """nothing was asked: the next broker is there all the same"""
        c = self.serve()
        before = self.kill_broker()
        self.assertTrue(until(lambda: self.place.broker() not in (None, before), 10))
        self.assertEqual({}, c.request("ping").result(5))

    def unanswered(self, send):
        """What send() asks of a broker that stands still and is then killed."""
        c = self.serve(initialize=False)
        c.request("ping").result(10)
        os.kill(self.place.broker(), signal.SIGSTOP)
        asked = send(c)
        time.sleep(0.2)
        self.kill_broker()
        return c, asked

    def test_handshake_unanswered(self):
        """the handshake itself is asked for again"""
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        _, call = self.unanswered(lambda c: c.request("initialize", hello))
        self.assertEqual("2025-11-25", call.result(20)["protocolVersion"])

    def test_many_unanswered(self):
        """requests come again in order, large and too long ones, too"""
        def send(c):
            calls = [c.request("ping", {"i": i}) for i in range(50)]
            calls.append(c.request("ping", {"x": "x" * (1 << 20)}))
            return calls
        c, calls = self.unanswered(send)
        for call in calls:
            self.assertEqual({}, call.result(20))
        self.assertEqual({}, c.request("ping").result(5))
        self.assertEqual([], c.unmatched)

    def test_cancelled_unanswered(self):
        """a cancellation comes after what it cancels, which then has no answer"""
        def send(c):
            call = c.start("run_command", command=f"sleep 198.{os.getpid()}")
            c.notify("notifications/cancelled", {"requestId": call.id})
            return call
        c, call = self.unanswered(send)
        self.assertEqual({}, c.request("ping").result(20))
        self.assertTrue(until(lambda: not self.sleeps(198), 5))
        self.assertFalse(call.done.is_set())

    def test_progress(self):
        """progress never goes backwards, whoever reports it"""
        c = self.serve()
        call = c.start("run_command", {"progressToken": 7}, command="sleep 14", wait_s=20)
        c.wait_for(lambda c: len(c.notifications) >= 2, 10)
        self.kill_broker()
        c.finish(call)
        values = [n["params"]["progress"] for _, n in c.notifications]
        self.assertGreaterEqual(len(values), 4, values)
        self.assertEqual(sorted(set(values)), values)

    def test_dies_again_and_again(self):
        """a request that no broker survives is given up, and said so; the next one is served"""
        c = self.serve()
        call = c.start("run_command", command=f"sleep 199.{os.getpid()}")
        seen = set()
        end = time.monotonic() + 60
        while not call.done.is_set() and time.monotonic() < end:
            pid = self.place.broker()
            if pid and pid not in seen:
                seen.add(pid)
                time.sleep(0.1)
                os.kill(pid, 9)
            time.sleep(0.02)
        self.assertIn("again and again", call.error(1)["message"])
        self.assertLessEqual(len(seen), 12)
        self.assertEqual({}, c.request("ping").result(20))

    # -- what cannot be reached

    def test_lock_held(self):
        """the lock is held, and nobody answers: an error that names the holder and the way out"""
        state = os.path.join(self.place.state, "scb")
        os.makedirs(state)
        os.chown(state, self.place.uid, self.place.uid)
        self.place.file(os.path.join(state, "lock"), f"{os.getpid()}\n".encode())
        with open(os.path.join(state, "lock")) as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            began = time.monotonic()
            said = self.refused(65)
            self.assertGreater(time.monotonic() - began, 5)
        for word in ("--state", "/lock"):
            self.assertIn(word, said)
        if self.place.uid == os.geteuid():
            self.assertIn(f"process {os.getpid()}", said)
        self.serve()  # and once it is free, all is well

    # -- settings

    def test_conflict(self):
        """limits hold for all sessions of a broker: who asks for others is told to use another"""
        c = self.serve("--limit", "memory=512M")
        c.tool("session", action="open")
        said = self.refused(65, "--limit", "memory=768M")
        for word in ("memory=768M", "--state", "--solo"):
            self.assertIn(word, said)
        self.assertIn("--state", self.refused(65, "--outputs", self.place.folder("out")))
        for arguments in ((), ("--limit", "memory=512M"), ("--limit", "pids=256")):
            other = self.serve(*arguments)  # gives none, or the same
            self.assertEqual(c.pid, other.pid)
            limits = other.tool("session", action="info").limits
            self.assertEqual(512 << 20, limits["memoryBytes"])
        done = self.place.scb("run", "--limit", "memory=768M", "-c", "1")
        self.assertEqual(65, done.returncode, done.stderr)
        done = self.place.scb("run", "--solo", "--limit", "memory=768M", "-c", "1")
        self.assertEqual((0, "1\n"), (done.returncode, done.stdout), done.stderr)

    def test_unused_broker_makes_room(self):
        """a broker that nobody uses gives way to one with other settings"""
        for memory in ("512M", "768M", "512M"):
            done = self.place.scb("run", "--limit", f"memory={memory}", "-c", "6 * 7")
            self.assertEqual((0, "42\n"), (done.returncode, done.stdout), done.stderr)
        self.assertEqual(3, [e["event"] for e in self.place.audit()].count("broker.start"))

    def test_settings_survive(self):
        """a broker's settings are its successor's, whoever starts it"""
        a = self.serve("--limit", "memory=512M")
        b = self.serve()
        a.proc.send_signal(signal.SIGSTOP)
        try:
            before = self.kill_broker()
            self.assertEqual({}, b.request("ping").result(20))
            self.assertNotEqual(before, b.pid)
        finally:
            a.proc.send_signal(signal.SIGCONT)
        self.assertEqual({}, a.request("ping").result(20))
        self.assertEqual(a.pid, b.pid)
        self.assertEqual(512 << 20, b.tool("session", action="info").limits["memoryBytes"])

    # -- versions

    def test_newer(self):
        """a newer front takes over; the older one goes on with the newer broker, and takes nothing back"""
        old = self.serve()
        first = old.pid
        new = self.other("newer")
        self.assertEqual("99.0.0", new.initialize(timeout=20)["serverInfo"]["version"])
        second = new.pid
        self.assertNotEqual(first, second)
        self.assertEqual("99.0.0", self.address()["build"])
        self.assertEqual({}, old.request("ping").result(20))
        self.assertEqual("1\n", old.tool("run_command", command="echo 1").stdout)
        self.assertEqual("99.0.0", self.serve().initialize()["serverInfo"]["version"])
        self.assertEqual({second}, {old.pid, new.pid, self.place.broker()})
        self.assertIn("broker.leave", [e["event"] for e in self.place.audit()])

    def test_newer_while_working(self):
        """a hand-over while something runs: it is answered by the newer broker"""
        old = self.serve()
        call = old.start("run_command", command="sleep 2; echo done")
        time.sleep(0.3)
        new = self.other("newer")
        new.initialize(timeout=20)
        self.assertEqual("done\n", old.finish(call).stdout)
        self.assertEqual(1, len({old.pid, new.pid}))

    def test_too_old(self):
        """a front whose protocol the newer broker no longer speaks is told to restart its host"""
        old = self.serve()
        new = self.other("later")  # and does not understand the running broker, either: it takes over
        self.assertEqual("100.0.0", new.initialize(timeout=20)["serverInfo"]["version"])
        said = old.request("ping").error(20)["message"]
        for word in ("restart", harness.VERSION, "100.0.0"):
            self.assertIn(word, said)
        self.assertIn("restart", self.refused(76))
        self.assertEqual({}, new.request("ping").result(5))

    # -- one process

    def test_solo(self):
        """--solo: one process, no broker, nothing that stays"""
        c = self.serve("--solo")
        self.assertEqual("1\n", c.tool("run_command", command="echo 1").stdout)
        self.assertIsNone(self.place.broker())
        self.assertEqual(["solo"], os.listdir(os.path.join(self.place.state, "scb")))
        self.assertEqual(["audit.head", "audit.jsonl"], sorted(os.listdir(os.path.join(self.place.state, "scb/solo/1"))))
        below = self.place.in_containers() if harness.PROVIDER == "docker" else descendants(c.proc.pid)
        self.assertTrue(below)
        shared = self.serve()
        self.assertNotEqual(c.proc.pid, shared.pid)
        shared.close()
        c.close()
        self.assertFalse([p for p in below if alive(p)])

    # -- commands

    def test_sessions(self):
        """scb sessions list and close: by handle, all, by principal"""
        self.assertEqual("no sessions\n", self.place.scb("sessions", "list").stdout)
        c = self.serve()
        handles = [c.tool("session", action="open").session for _ in range(3)]
        listed = self.place.scb("sessions", "list").stdout.splitlines()
        self.assertEqual(sorted(handles), sorted(line.split()[0] for line in listed))
        self.assertEqual({(f"uid:{self.place.uid}", harness.PROVIDER)}, {tuple(line.split()[1:3]) for line in listed})
        self.assertEqual("no sessions\n", self.place.scb("sessions", "list", "--principal", "uid:4").stdout)
        self.assertEqual("closed 0 sessions\n", self.place.scb("sessions", "close", "--all", "--principal", "uid:4").stdout)
        done = self.place.scb("sessions", "close", handles[0])
        self.assertEqual((0, "closed 1 session\n"), (done.returncode, done.stdout), done.stderr)
        self.assertTrue(c.tool("run_command", command="true", session=handles[0]).is_error)
        done = self.place.scb("sessions", "close", handles[0])
        self.assertEqual((66, ""), (done.returncode, done.stdout))
        done = self.place.scb("sessions", "close", "--all", "--principal", f"uid:{self.place.uid}")
        self.assertEqual("closed 2 sessions\n", done.stdout)
        self.assertEqual("no sessions\n", self.place.scb("sessions", "list").stdout)
        for wrong in ([], ["lost"], ["close"], ["close", "a", "b"], ["close", "a", "--all"], ["list", "x"]):
            self.assertEqual(64, self.place.scb("sessions", *wrong).returncode, wrong)

    def test_run_leaves_no_session(self):
        """scb run: its session ends with it, and when it is killed"""
        self.assertEqual("1\n", self.place.scb("run", "-c", "print(1)").stdout)
        self.assertEqual("no sessions\n", self.place.scb("sessions", "list").stdout)
        proc = subprocess.Popen(self.place.command("run", "--language", "shell", "-c", f"sleep 196.{os.getpid()}"),
                                env=self.place.environment(), start_new_session=True)
        self.assertTrue(until(lambda: self.sleeps(196), 10))
        os.killpg(proc.pid, 9)
        proc.wait()
        self.assertTrue(until(lambda: self.place.scb("sessions", "list").stdout == "no sessions\n", 5))
        self.assertFalse(self.sleeps(196))

    # -- hostile peers

    def test_bad_frames(self):
        """what is no front is cut off, and disturbs nobody"""
        c = self.serve()
        message = struct.pack(">QBI", 1, 0, 0) + b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\0\1", b"\xff" * 64, frame(0), frame(ANSWER, b"x" * 9), frame(MESSAGE, message),
                     frame(BYE), frame(HELLO, b"{"), frame(HELLO, b"[" * 2000), frame(HELLO, b"{}"), hello(kind="king"),
                     hello(mounts=[{"name": "../x", "source": "/"}]), hello(mounts=[{"name": "x", "source": "relative"}]),
                     hello(session="s-1"), hello(front="00"), hello() + frame(HELLO, b"{}"), hello() + frame(MESSAGE, b"short"),
                     hello() + frame(CONTROL, b"{}"), hello(kind="control") + frame(MESSAGE, message),
                     struct.pack(">IB", 11 << 20, MESSAGE), hello(protocol=[7, 9]), hello(limits=["memory=1"]), hello(provider="x")):
            with self.subTest(data=data[:60]), self.connect() as s:
                s.sendall(data)
                kinds = []
                while True:
                    got = read_frame(s)
                    if got is None:
                        break
                    kinds.append(got[0])
                self.assertLessEqual(len(kinds), 1)
                self.assertLessEqual(set(kinds), {WELCOME, REFUSED})
        self.assertEqual({}, c.request("ping").result(5))

    def test_silent_peers(self):
        """connections that say nothing are closed, and only so many are taken"""
        c = self.serve()
        peers = [self.connect() for _ in range(100)]
        answers = [read_frame(s) for s in peers]  # those beyond the limit at once, the others later
        for s in peers:
            s.close()
        refused = [a for a in answers if a and a[0] == REFUSED]
        self.assertTrue(refused)
        self.assertIn("takes no more", json.loads(refused[0][1])["text"])
        self.assertGreaterEqual([a for a in answers].count(None), 60)
        self.assertEqual({}, c.request("ping").result(5))
        self.serve().close()

    @unittest.skipUnless(harness.MODE == "user" and os.geteuid() == 0, "root is another user here")
    def test_foreign_peer(self):
        """a peer of another user, even root, is not listened to; nor does a front speak to another user's socket"""
        self.serve()
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(5)
            s.connect(self.address()["socket"])
            with contextlib.suppress(BrokenPipeError):  # it may be shut already
                s.sendall(hello())
            self.assertIsNone(read_frame(s))
        done = subprocess.run([os.path.join(self.place.bin, "scb"), "sessions", "list", "--state", os.path.join(self.place.state, "scb")],
                              env=self.place.environment(), capture_output=True, text=True)
        self.assertEqual(74, done.returncode)
        self.assertIn("not this user's", done.stderr)

    def test_two_hosts_at_once(self):
        """calls of two hosts run side by side, each answered to its own"""
        a, b = self.serve(), self.serve()
        slow = a.start("run_command", command="sleep 1.5; echo a")
        self.assertEqual("b\n", b.tool("run_command", command="echo b").stdout)
        self.assertFalse(slow.done.is_set())
        threads = [threading.Thread(target=lambda c=c: [c.request("ping").result(5) for _ in range(200)]) for c in (a, b)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual("a\n", a.finish(slow).stdout)
        self.assertNotEqual(a.tool("run_command", command="true").session, b.tool("run_command", command="true").session)


if __name__ == "__main__":
    harness.main()
