#!/usr/bin/python3
"""Running code and commands: what a call answers, in time, bounded and true."""
import base64
import hashlib
import os
import threading
import time
import unittest

import harness
from harness import Case, only, until


class Commands(Case):
    def test_timeout(self):
        """a command that runs too long is answered in time, and is gone"""
        r = self.sh("sleep 30.125", timeout_s=1)
        self.assertDone(r, None, "timeout")
        self.assertFast(r, 1.5)
        self.assertEqual([], self.sandbox_processes("sleep 30.125"))

    def test_timeout_tree(self):
        """a tree that ignores TERM and INT, with a child in a session of its own, is gone"""
        r = self.sh("""sh -c 'trap "" TERM INT; sleep 60.25 & setsid sleep 60.25 & wait'""", timeout_s=1)
        self.assertDone(r, None, "timeout")
        self.assertFast(r, 2)
        self.assertTrue(until(lambda: not self.sandbox_processes("sleep 60.25"), 0.2))

    def test_background(self):
        """a background child does not hold up the answer, lives on, and goes with the session"""
        s = self.open()
        r = self.sh("sleep 60.5 & echo started", session=s)
        self.assertDone(r)
        self.assertEqual("started\n", r.stdout)
        self.assertFast(r, 1)
        self.assertEqual("1\n", self.sh("for i in $(seq 50); do pgrep -fc '^sleep 60[.]5' && break; sleep 0.1; done "
                                        "| tail -1", session=s).stdout)
        self.client.tool("session", action="close", session=s)
        self.assertTrue(until(lambda: not self.sandbox_processes("sleep 60.5"), 1))

    def test_server(self):
        """a server started in one call answers in the next"""
        s = self.open()
        self.assertDone(self.sh("python3 -m http.server 8000 >/dev/null 2>&1 &", session=s))
        r = self.sh("for i in $(seq 50); do curl -s localhost:8000 && break; sleep 0.1; done | head -1", session=s)
        self.assertDone(r)
        self.assertIn("DOCTYPE", r.stdout)

    def test_empty_stdin(self):
        """stdin is empty where none is given"""
        r = self.sh("cat")
        self.assertDone(r)
        self.assertEqual("", r.stdout or "")
        self.assertFast(r, 1)

    def test_stdin(self):
        """given stdin arrives exactly"""
        text = "é\n" * 5000
        self.assertEqual(f"{len(text.encode())}\n", self.sh("wc -c", stdin=text).stdout)

    def test_endless_output(self):
        """endless output: a bounded answer with head and tail, and the broker does not grow"""
        self.sh("yes | head -c 1000000")  # buffers of the first kind are there
        before = self.client.rss()
        r = self.sh("yes", timeout_s=2)
        grown = self.client.rss() - before
        self.assertDone(r, None, "timeout")
        self.assertLess(len(r.text), 80_000)
        self.assertLess(len(r.stdout), 26_000)
        self.assertTrue(r.stdout.startswith("y\ny\n"), r.stdout[:100])
        self.assertTrue(r.stdout.rstrip().endswith("y\ny"), r.stdout[-100:])
        self.assertGreater(r.omitted["stdout"], 1_000_000)
        if not harness.SANITIZED:
            self.assertLess(grown, 2 << 20)

    def test_binary_output(self):
        """binary output: no broken text, the byte count is right, the bytes come back exactly"""
        s = self.open()
        r = self.sh("head -c 5000000 /dev/urandom | tee copy", session=s)
        self.assertDone(r)
        r.stdout.encode("utf-8")
        self.assertNotIn("\0", r.stdout)
        data, total = bytearray(), None
        while total is None or len(data) < total:
            piece = self.client.tool("job", action="read", session=s, job=r.job, offset=len(data), length=65536,
                                     encoding="base64")
            self.assertFalse(piece.is_error, piece.text)
            total = piece.totalBytes
            got = base64.b64decode(piece.data["data"])
            self.assertTrue(got, str(piece))
            data += got
        self.assertEqual(5_000_000, total)
        said = self.sh("sha256sum <copy", session=s).stdout.split()[0]
        self.assertEqual(said, hashlib.sha256(data).hexdigest())

    def test_nothing_to_read(self):
        """reads where nothing is: empty streams, at the end and beyond it, of a job that still runs"""
        s = self.open()
        ended = self.sh("printf abc", session=s).job
        cell = self.py("print('hello')", session=s).job
        silent = self.sh("sleep 30", session=s, wait_s=0).job
        for job, total in ((ended, 3), (cell, 6), (silent, 0)):
            for stream in ("stdout", "stderr", "both"):
                for encoding in ("text", "base64"):
                    for offset in (0, total, total + 7, 1 << 40):
                        if stream == "both" and encoding == "base64":
                            continue
                        with self.subTest(job=job, stream=stream, encoding=encoding, offset=offset):
                            r = self.client.tool("job", action="read", session=s, job=job, stream=stream,
                                                 encoding=encoding, offset=offset)
                            self.assertFalse(r.is_error, r.text)
                            self.assertEqual(job != silent, r.ended)
                            there = total if stream != "stderr" else 0
                            self.assertEqual(there, r.totalBytes)
                            self.assertEqual(max(0, there - offset), r.bytes)
                            if r.bytes == 0:
                                name = {"both": "pieces", "stdout": "text", "stderr": "text"}[stream]
                                name = "data" if encoding == "base64" else name
                                self.assertEqual([] if stream == "both" else "", r.data[name])
        self.assertDone(self.sh(": >empty", session=s))
        r = self.client.tool("files", action="read", session=s, path="empty")
        self.assertEqual("", r.data["text"])

    def test_streams_in_order(self):
        """stdout and stderr apart, and in order of arrival in the timeline; the exit code is kept"""
        r = self.sh(r"printf 'a\n'; sleep 0.05; printf 'b\n' >&2; sleep 0.05; printf 'c\n'; exit 7")
        self.assertDone(r, 7)
        self.assertEqual(("a\nc\n", "b\n"), (r.stdout, r.stderr))
        line = self.client.tool("job", action="read", job=r.job, stream="both")
        self.assertFalse(line.is_error, line.text)
        pieces = [(p["stream"], p["text"]) for p in line.data["pieces"]]
        self.assertEqual([("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c\n")], pieces)

    def test_signal(self):
        """death by a signal is told by the signal's name"""
        r = self.sh("kill -SEGV $$")
        self.assertDone(r, None, "signal")
        self.assertEqual("SIGSEGV", r.exit["signal"])
        self.assertIn("SIGSEGV", r.text)

    def test_clean_start(self):
        """each command starts in the workspace with a clean environment"""
        s = self.open()
        self.assertDone(self.sh("cd /tmp && export A=1", session=s))
        r = self.sh("pwd; echo $A", session=s)
        if harness.PROVIDER != "local":
            self.assertEqual("/workspace\n\n", r.stdout)
        else:
            self.assertNotIn("/tmp\n", r.stdout)
            self.assertEqual(2, r.stdout.count("\n"))
        self.assertEqual("/tmp\n", self.sh("pwd", session=s, cwd="/tmp").stdout)

    def test_environment_values(self):
        """a value of env arrives as it was given"""
        value = "x y\"z'$HOME\n2"
        self.assertEqual(value, self.sh('printf %s "$A"', env={"A": value}).stdout)

    def test_argv(self):
        """argv runs without a shell"""
        r = self.client.tool("run_command", argv=["printf", "%s|", "a b", "$HOME", ""])
        self.assertDone(r)
        self.assertEqual("a b|$HOME||", r.stdout)

    def test_no_such_program(self):
        """a program that is not there is named"""
        r = self.client.tool("run_command", argv=["no-such-program-here"])
        self.assertIn("no-such-program-here", r.text)
        self.assertTrue(r.is_error or r.exitCode == 127, str(r))

    def test_two_at_once(self):
        """two commands of a session run side by side"""
        self.sh("true")
        began = time.monotonic()
        calls = [self.client.start("run_command", command="sleep 1") for _ in range(2)]
        for call in calls:
            self.assertDone(self.client.finish(call))
        if not harness.SANITIZED:
            self.assertLess(time.monotonic() - began, 1.8 * harness.busy())

    def test_wait_then_job(self):
        """wait_s passed: running with a handle; job wait gives the result, the same each time"""
        r = self.sh("echo one; sleep 1.5; echo two", wait_s=1)
        self.assertEqual("running", r.status, str(r))
        self.assertFast(r, 1.4)
        first = self.client.tool("job", action="wait", job=r.job)
        self.assertDone(first)
        self.assertEqual("one\ntwo\n", first.stdout)
        again = self.client.tool("job", action="wait", job=r.job)
        self.assertEqual((first.stdout, first.exitCode, first.durationMs),
                         (again.stdout, again.exitCode, again.durationMs))

    def test_cancel(self):
        """a cancelled command ends, tree and all, and is not answered"""
        call = self.client.start("run_command", command="sleep 77.5 & sleep 77.5")
        self.assertTrue(until(lambda: len(self.sandbox_processes("sleep 77.5")) >= 2, 3))
        self.client.notify("notifications/cancelled", {"requestId": call.id, "reason": "test"})
        self.assertTrue(until(lambda: not self.sandbox_processes("sleep 77.5"), 2))
        self.assertFalse(call.done.wait(0.3), "a cancelled request was answered")

    def test_lines_of_progress(self):
        """carriage-return progress shows its last state"""
        r = self.sh(r"for i in $(seq 2000); do printf '%d of 2000\r' $i; done; echo")
        self.assertDone(r)
        self.assertIn("2000 of 2000", r.stdout)
        self.assertNotIn("1999 of 2000", r.stdout)


class Confined(Case):
    """What a sandbox shows of the host."""

    @only("bubblewrap", "docker")
    def test_limits_are_seen(self):
        """nproc, free and df speak of the sandbox where they can"""
        r = self.sh("nproc; df -B1 --output=size /workspace | tail -1; free -m | head -2")
        self.assertDone(r)
        lines = r.stdout.split("\n")
        if harness.PROVIDER == "bubblewrap":  # an engine gives time on every CPU, not CPUs
            self.assertLessEqual(int(lines[0]), 2)
        self.assertLessEqual(int(lines[1]), 512 << 20)
        self.assertGreater(int(lines[1]), 256 << 20)

    def test_nothing_inherited(self):
        """no variable, argument or descriptor of the broker is to be seen"""
        r = self.sh("cat /proc/1/environ /proc/1/cmdline 2>&1 | tr '\\0' '\\n'; echo; ls -l /proc/self/fd; env")
        self.assertDone(r)
        if harness.PROVIDER != "local":
            self.assertNotIn(harness.CANARY, r.stdout)
            self.assertNotIn(self.place.top, r.stdout)
        else:  # /proc/1 is the host's there
            self.assertNotIn(harness.CANARY, self.sh("env; ls -l /proc/self/fd").stdout)
        if harness.GVISOR:  # whose /proc/self/fd lists nothing to ls
            look = "import os, contextlib\nfor n in range(1024):\n with contextlib.suppress(OSError): os.fstat(n); print(n)"
            self.assertEqual("0\n1\n2\n", self.client.tool("run_command", argv=["python3", "-c", look]).stdout)
        else:
            self.assertEqual(["0", "1", "2", "3"], self.sh("ls /proc/self/fd").stdout.split())  # 3 is the folder that ls reads

    def test_nothing_inherited_by_kernel(self):
        """a kernel's cell sees no descriptor but its own, and none of the broker's variables"""
        r = self.py("import os; print([os.readlink(f'/proc/self/fd/{f}') for f in os.listdir('/proc/self/fd') "
                    "if os.path.lexists(f'/proc/self/fd/{f}')]); print(dict(os.environ))")
        self.assertDone(r)
        self.assertNotIn(harness.CANARY, r.stdout)
        self.assertNotIn("cgroup", r.stdout)

    @only("bubblewrap", "docker")
    def test_nothing_of_the_host(self):
        """nothing of the host's people and sockets"""
        secret = os.path.join(self.place.home, "private-note")
        self.place.file(secret, harness.CANARY.encode())
        r = self.sh(f"ls / /home /root /etc; cat /etc/shadow; ls -R /run /var/run; cat {secret}; ls {self.place.home}")
        seen = (r.stdout or "") + (r.stderr or "")
        self.assertNotIn("private-note\n", r.stdout)
        self.assertNotIn(harness.CANARY, seen)
        self.assertNotIn("$6$", seen)
        self.assertNotIn("root:*:", r.stdout)
        for path in ("/home", "/root"):
            names = self.sh(f"ls -A {path} 2>/dev/null").stdout or ""
            try:
                host = set(os.listdir(path))
            except OSError:
                host = set()
            self.assertEqual(set(), set(names.split()) & host, path)
        self.assertEqual("", self.sh("find /run /var/run/ -type s 2>/dev/null").stdout or "")

    @only("bubblewrap", "docker")
    def test_no_network(self):
        """no network: an attempt fails at once, the answer says so, localhost works"""
        s = self.open()
        r = self.sh("curl -m 2 https://example.com; getent hosts example.com", session=s)
        self.assertFast(r, 1)
        self.assertNotEqual(0, r.exitCode)
        said = r.text + str(r.denials or "")
        self.assertIn("no network", said.lower())
        self.assertDone(self.sh("python3 -m http.server 8001 >/dev/null 2>&1 & "
                                "for i in $(seq 50); do curl -sf localhost:8001 >/dev/null && exit 0; sleep 0.1; done; exit 1",
                                session=s))

    @only("bubblewrap", "docker")
    def test_read_only_root(self):
        """the root is read-only; the workspace, /tmp and /dev/shm are not"""
        r = self.sh("for d in / /usr /etc /usr/bin; do touch $d/x 2>/dev/null && echo $d; done; "
                    "touch /workspace/x /tmp/x /dev/shm/x && echo fine")
        self.assertEqual("fine\n", r.stdout)

    def test_not_root(self):
        """code is never the host's root"""
        r = self.sh("id -u; cat /proc/self/uid_map; grep -i ^cap /proc/self/status")
        self.assertDone(r)
        self.assertNotEqual("0", r.stdout.split("\n")[0])
        if harness.PROVIDER != "local":
            for line in r.stdout.split("\n"):
                if line.startswith(("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb")):
                    self.assertEqual(0, int(line.split()[1], 16), line)


@unittest.skipIf(harness.PROVIDER == "local", "never on local: nothing there bounds memory, disk and processes together")
class Limits(Case):
    """Programs that take all they can get."""

    SERVE = ("--limit", "memory=512M")

    def test_pipe_through_memory_limit(self):
        """three gigabytes through a pipe under 512 MiB"""
        r = self.sh("head -c 3000000000 /dev/zero | tail -c 1 | wc -c", wait_s=50)
        if r.status == "running":  # others keep the machine busy
            r = self.client.tool("job", action="wait", job=r.job, wait_s=50)
        self.assertDone(r)
        self.assertEqual("1\n", r.stdout)

    def test_what_is_said_of_limits(self):
        """session info says who holds a limit, and no number that nobody counts"""
        info = self.client.tool("session", action="info", session=self.open())
        self.assertFalse(info.is_error, info.text)
        counted = info.data["enforced"]["memory"].startswith("cgroup")
        self.assertEqual(counted, "MiB memory (cgroup" in info.text, info.text)
        counted = counted and not harness.GVISOR  # the agent there does not see the host's groups
        self.assertEqual(counted, "memoryBytes" in info.data["usage"], info.text)
        self.assertEqual(counted, "MiB memory" in info.text.split("in use: ")[1], info.text)
        self.assertEqual(info.data["enforced"]["cpu"] == "none", "CPUs (not limited)" in info.text)

    def assertWholeEnded(self, r):
        """To the host's kernel gVisor's and all programs on it are one: what takes all memory ends the sandbox."""
        self.assertEqual("sandbox_lost", r.reason, str(r))
        self.assertIn("as a whole", str(r))
        self.assertDone(self.sh("echo another"))

    def test_memory(self):
        """100 GB of memory: said as such, with its evidence; a new kernel works afterwards"""
        s = self.open()
        r = self.py("a=[b'x'*10**7 for _ in range(10**4)]", session=s)
        self.assertFalse(r.is_error, str(r))
        if harness.GVISOR:
            self.assertWholeEnded(r)
            return
        if r.error is None or r.error["name"] != "MemoryError":
            self.assertEqual("out_of_memory", r.reason, str(r))
            self.assertIn(r.exit["evidence"], ("measured", "inferred"))
            self.assertTrue(r.exit.get("remedy"))
        self.assertDone(self.py("a = None; print(6*7)", session=s))
        self.assertEqual("42\n", self.py("print(6*7)", session=s).stdout)

    @only("bubblewrap", "docker")
    @unittest.skipIf(harness.GVISOR, "gVisor's /proc/sysvipc/shm lists nothing, and a sandbox's end is theirs in any case")
    def test_shared_memory_of_the_dead(self):
        """System V segments of dead programs go with the interpreter, those of living ones stay"""
        s = self.open()
        self.assertDone(self.py("1", session=s))
        make = ("import ctypes, sys, time; c = ctypes.CDLL(None); "
                "print(c.shmget(0, 1 << 20, 0o1000), flush=True); time.sleep(int(sys.argv[1]))")
        self.assertDone(self.client.tool("run_command", session=s, argv=["python3", "-c", make, "0"]))
        living = self.client.tool("run_command", session=s, argv=["python3", "-c", make, "60"], wait_s=1)
        self.assertEqual("running", living.data["status"], str(living))
        count = "tail -n +2 /proc/sysvipc/shm | wc -l"
        self.assertEqual("2\n", self.sh(count, session=s).stdout)
        self.assertFalse(self.client.tool("session", action="restart", session=s).is_error)
        self.assertEqual("1\n", self.sh(count, session=s).stdout)

    def test_memory_of_a_command(self):
        """a command that takes all memory is killed for it, and its session goes on"""
        s = self.open()
        r = self.client.tool("run_command", session=s,
                             argv=["python3", "-c", "a=[b'x'*10**7 for _ in range(10**4)]"])
        self.assertFalse(r.is_error, str(r))
        if harness.GVISOR:
            self.assertWholeEnded(r)
            return
        if "MemoryError" not in (r.stderr or ""):
            self.assertEqual("out_of_memory", r.reason, str(r))
        self.assertDone(self.sh("echo fine", session=s))

    def test_disk(self):
        """a full workspace is noted; after rm calls work; the host's disk is as before"""
        s = self.open()
        free = os.statvfs("/").f_bavail * os.statvfs("/").f_frsize
        r = self.sh("dd if=/dev/zero of=/workspace/big bs=1M count=100000", session=s)
        self.assertFalse(r.is_error, str(r))
        self.assertNotEqual(0, r.exitCode)
        self.assertIn("disk_full", str(r.exit), str(r))
        self.assertEqual(("disk_full", "reported"), (r.reason, r.exit["evidence"]), str(r))
        self.assertLess(abs(free - os.statvfs("/").f_bavail * os.statvfs("/").f_frsize), 200 << 20)
        # What fails on a full disk need not fail because of it.
        r = self.sh("exit 3", session=s)
        self.assertEqual(("exit", 3), (r.reason, r.exitCode), str(r))
        self.assertIn("full", str(r.exit["notes"]), str(r))
        r = self.py("1/0", session=s)
        self.assertEqual("exit", r.reason, str(r))
        self.assertFalse(r.exit.get("notes"), str(r))
        r = self.py("with open('more', 'wb', 0) as f:\n  for _ in range(99): f.write(bytes(1 << 20))",
                    session=s)
        self.assertEqual(("disk_full", "reported"), (r.reason, r.exit["evidence"]), str(r))
        self.assertDone(self.sh("rm -f more", session=s))
        self.assertDone(self.sh("rm /workspace/big", session=s))
        # One that fills it and says nothing.
        r = self.sh("dd if=/dev/zero of=/workspace/big bs=1M count=100000 2>/dev/null", session=s)
        self.assertEqual(("disk_full", "inferred"), (r.reason, r.exit["evidence"]), str(r))
        self.assertDone(self.sh("rm /workspace/big", session=s))
        w = self.client.tool("files", action="write", session=s, path="small.txt", content="x")
        self.assertFalse(w.is_error, w.text)
        self.assertDone(self.sh("cat /workspace/small.txt", session=s))

    def test_processes(self):
        """a storm of processes: said so within a second; what needs no new process still works"""
        s = self.open()
        self.assertDone(self.py("x = 1", session=s))
        self.sh("for i in $(seq 5000); do sleep 100 & done", session=s, wait_s=1)
        seen = [0]

        def full():  # no process more within half a second
            seen.append(len(self.below()))
            return seen[-1] > 200 and seen[-1] == seen[-2]

        self.assertTrue(until(full, 30, 0.5), seen)
        r = self.sh("sh -c 'echo hello' | cat", session=s)
        said = r.text + str(r.data)
        self.assertFast(r, 4 if harness.GVISOR else 1)  # there it is seen by reading /proc of all of them
        self.assertIn("too_many_processes", said)
        self.assertTrue(r.is_error or r.exit.get("remedy"), str(r))
        self.assertFalse(self.client.tool("job", action="list", session=s).is_error)
        self.assertFalse(self.client.tool("files", action="list", session=s).is_error)
        again = self.client.tool("session", action="restart", session=s)
        self.assertFalse(again.is_error, again.text)


class Cells(Case):
    def test_forged_results(self):
        """a cell that writes into its kernel's own socket harms its kernel, not the session"""
        s = self.open()
        self.assertDone(self.sh("echo kept >file", session=s))
        for what in ("bytes([1, 15, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]) + b'z' * 256",  # results that are no TLVs
                     "bytes([1, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])", "b'\\xff' * 64"):
            r = self.py(f"""import os, time
for fd in os.listdir("/proc/self/fd"):
    fd = "/proc/self/fd/" + fd
    if os.path.islink(fd) and os.readlink(fd).startswith("socket:"):
        os.write(int(fd[14:]), {what})
        time.sleep(9)
""", session=s)
            self.assertEqual("interpreter_died", r.reason, str(r))
            self.assertEqual("kept\n", self.sh("cat file", session=s).stdout)

    """run_code, Python."""

    def test_value(self):
        """the last expression's value is the result"""
        r = self.py("21 * 2")
        self.assertDone(r)
        self.assertEqual("42", r.results[0]["mime"]["text/plain"])
        self.assertIn("42", r.text)

    def test_input(self):
        """input() without stdin is an error that says what to do; the kernel lives"""
        s = self.open()
        self.py("kept = 7", session=s)
        r = self.py('input("name? ")', session=s)
        self.assertFalse(r.is_error, str(r))
        self.assertIsNotNone(r.error, str(r))
        self.assertIn("stdin", str(r.error))
        self.assertFast(r, 2)
        self.assertEqual("7", self.py("kept", session=s).results[0]["mime"]["text/plain"])

    def test_timeout_keeps_state(self):
        """an endless loop is interrupted, and what was computed is kept"""
        s = self.open()
        self.assertDone(self.py("x = 41", session=s))
        r = self.py("while True: pass", session=s, timeout_s=1)
        self.assertEqual("timeout", r.reason, str(r))
        self.assertFast(r, 2)
        self.assertEqual("42", self.py("x + 1", session=s).results[0]["mime"]["text/plain"])

    def test_interpreter_dies(self):
        """the interpreter's death is told with code and remedy; the next call says state was lost"""
        s = self.open()
        self.py("gone = 1", session=s)
        r = self.py("import os; os._exit(3)", session=s)
        self.assertFalse(r.is_error, str(r))
        self.assertEqual(("interpreter_died", 3), (r.reason, r.exitCode), str(r))
        self.assertTrue(r.exit.get("remedy"), str(r))
        after = self.py("1", session=s)
        self.assertDone(after)
        self.assertEqual("1", after.results[0]["mime"]["text/plain"])
        self.assertRegex(after.text.lower(), r"state|variables")
        self.assertRegex(after.text.lower(), r"lost|gone")
        self.assertNotIn("gone", self.py("2", session=s).text.lower())

    def test_stubborn_cell(self):
        """a cell that swallows interrupts costs its kernel, and it is said that state was lost"""
        s = self.open()
        r = self.py("import time\nwhile True:\n  try:\n    time.sleep(100)\n  except BaseException:\n    pass",
                    session=s, timeout_s=1)
        self.assertFalse(r.is_error, str(r))
        self.assertIn(r.reason, ("timeout", "interpreter_died"))
        self.assertFast(r, 8)
        after = self.py("1", session=s)
        self.assertEqual("1", after.results[0]["mime"]["text/plain"])
        self.assertRegex((r.text + after.text).lower(), "lost|gone")
        self.assertNotIn("variables are kept", r.text.lower())

    def test_unicode_in_one_write(self):
        """text in one write crosses every buffer unbroken"""
        r = self.py('print("é漢字🙂" * 100000)')
        self.assertDone(r)
        self.assertNotIn("\ufffd", r.stdout)
        self.assertNotIn("\ufffd", r.text)
        self.assertTrue(r.stdout.startswith("é漢字🙂é"))

    def test_cancel(self):
        """cancelling interrupts the cell; state is kept and the next call runs at once"""
        s = self.open()
        self.py("x = 1", session=s)
        call = self.client.start("run_code", language="python", code="import time\nx = 2\ntime.sleep(60)", session=s)
        time.sleep(0.3)
        self.client.notify("notifications/cancelled", {"requestId": call.id})
        r = self.py("x", session=s)
        self.assertEqual("2", r.results[0]["mime"]["text/plain"], str(r))
        self.assertFast(r, 1)
        self.assertFalse(call.done.is_set(), "a cancelled request was answered")

    def test_queue(self):
        """cells of a session run one after the other, in order of arrival"""
        s = self.open()
        self.py("order = []", session=s)
        calls = [self.client.start("run_code", language="python", session=s,
                                   code=f"import time; time.sleep(0.1); order.append({i})") for i in range(4)]
        for call in calls:
            self.assertDone(self.client.finish(call))
        self.assertEqual("[0, 1, 2, 3]", self.py("order", session=s).results[0]["mime"]["text/plain"])

    def test_syntax_error(self):
        """a syntax error names its line, without frames of ours"""
        r = self.py("a = 1\nb = 2\nc = = 3\n")
        self.assertFalse(r.is_error, str(r))
        self.assertEqual("SyntaxError", r.error["name"])
        self.assertIn("line 3", r.error["traceback"] + r.error["message"])
        for frame in ("kernel.py", "IPython/core", "<frozen", "/kernels/"):
            self.assertNotIn(frame, r.error["traceback"])

    def test_exception(self):
        """an exception has name, message and a traceback that begins in the cell"""
        r = self.py("def f():\n    return 1/0\nf()")
        self.assertEqual("ZeroDivisionError", r.error["name"])
        self.assertEqual("division by zero", r.error["message"])
        self.assertNotIn("kernel.py", r.error["traceback"])
        self.assertIn("1/0", r.error["traceback"])

    def test_sys_exit(self):
        """sys.exit(2) is exit 2, and the kernel lives"""
        s = self.open()
        self.py("kept = 8", session=s)
        r = self.py("import sys; sys.exit(2)", session=s)
        self.assertDone(r, 2)
        self.assertEqual("8", self.py("kept", session=s).results[0]["mime"]["text/plain"])

    def test_kernels_that_are_not_there(self):
        """interrupt and restart say where there is nothing to do, and refuse a name that is none"""
        s = self.open()
        for action in ("interrupt", "restart"):
            r = self.client.tool("session", action=action, session=s)
            self.assertIn("nothing to " + action, r.text)
        self.assertNotIn("pass session", r.text)
        self.py("x = 1", session=s)
        for action in ("interrupt", "restart"):
            self.assertRefused(self.client.tool("session", action=action, session=s, kernel="nope"), "nope", "python")
        self.assertIn("nothing was running", self.client.tool("session", action="interrupt", session=s).text)
        self.assertEqual("1", self.py("x", session=s).results[0]["mime"]["text/plain"])

    def test_missing_package(self):
        """what is not installed is named with the way to get it"""
        r = self.py("import no_such_module_here")
        self.assertIn("python3-no-such-module-here", r.text)
        self.assertIn("python3-no-such-module-here", " ".join(r.exit["notes"]))
        who = "an image that has it" if harness.IMAGE or harness.PROVIDER == "docker" else "on the host"
        self.assertIn(who, self.sh("no-such-program-here").text)
        r = self.py("from IPython.display import HTML\nHTML('<b>x</b>')")
        if not r.error:
            self.assertIn("(HTML, 8 bytes, in structured content)", r.text)

    def test_interrupt_and_restart(self):
        """session interrupt keeps the state, session restart does not"""
        s = self.open()
        self.py("x = 5", session=s)
        call = self.client.start("run_code", language="python", code="import time; time.sleep(60)", session=s)
        time.sleep(0.3)
        self.assertFalse(self.client.tool("session", action="interrupt", session=s).is_error)
        r = self.client.finish(call, 5)
        self.assertFalse(r.is_error, str(r))
        self.assertEqual("5", self.py("x", session=s).results[0]["mime"]["text/plain"])
        self.assertFalse(self.client.tool("session", action="restart", session=s).is_error)
        self.assertEqual("NameError", self.py("x", session=s).error["name"])

    def test_cell_sees_stdin(self):
        """stdin given with a cell is read by input()"""
        r = self.py("a = input(); b = input(); print(b + a)", stdin="1\n2\n")
        self.assertDone(r)
        self.assertEqual("21\n", r.stdout)


if __name__ == "__main__":
    harness.main()
