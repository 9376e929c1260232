#!/usr/bin/python3
"""A kernel's twin: session fork, by a real broker in real sandboxes."""
import time

import harness
from harness import Case, only, until


BARE_FORK = """
import os, time
def once():
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return time.monotonic() - start
sorted(once() for _ in range(5))[2]
"""


class Fork(Case):
    def value(self, code, **arguments):
        r = self.py(code, **arguments)
        self.assertDone(r)
        return r.results[0]["mime"]["text/plain"]

    def fork(self, session, **arguments):
        return self.client.tool("session", action="fork", session=session, **arguments)

    def twin(self, session, **arguments):
        r = self.fork(session, **arguments)
        self.assertFalse(r.is_error, str(r))
        return r.data["kernel"]

    def kernels(self, session):
        info = self.client.tool("session", action="info", session=session)
        return {k["name"]: k for k in info.data["kernels"]}

    def test_twins(self):
        """each kernel goes on with the same variables, for itself, and ends alone"""
        s = self.open()
        self.py("import os; os.mkdir('sub'); os.chdir('sub'); x = 5", session=s)
        self.assertEqual("python-2", self.twin(s))
        self.assertEqual("trial", self.twin(s, kernel="python-2", name="trial"))
        self.py("x = 6", session=s, kernel="trial")
        self.assertEqual("(6, 'sub')", self.value("x, os.path.basename(os.getcwd())", session=s, kernel="trial"))
        self.assertEqual(["5", "5"], [self.value("x", session=s, kernel=k) for k in ("python", "python-2")])
        found = self.kernels(s)
        self.assertEqual({"python", "python-2", "trial"}, set(found))
        self.assertEqual({("python", True, False)}, {(k["language"], k["alive"], k["busy"]) for k in found.values()})
        self.assertFalse(self.client.tool("session", action="restart", session=s, kernel="python-2").is_error)
        self.assertFalse(self.client.tool("session", action="restart", session=s).is_error)
        self.assertEqual("6", self.value("x", session=s, kernel="trial"))
        self.assertEqual("NameError", self.py("x", session=s).error["name"])
        self.assertEqual(["42"], [self.value("42", session=s, kernel="python-2")])

    def test_a_lost_twin(self):
        """a twin that died is started anew without its variables, and that is said"""
        s = self.open()
        self.py("import os; x = 5", session=s)
        name = self.twin(s)
        self.assertEqual("interpreter_died", self.py("os._exit(1)", session=s, kernel=name).reason)
        r = self.py("x", session=s, kernel=name)
        self.assertEqual("NameError", r.error["name"])
        self.assertEqual("5", self.value("x", session=s))

    def test_interrupts_and_timeouts(self):
        """what ends a cell of one ends none of the other"""
        s = self.open()
        self.py("import time; x = 5", session=s)
        name = self.twin(s)
        call = self.client.start("run_code", language="python", code="time.sleep(60)", session=s)
        r = self.py("time.sleep(60)", session=s, kernel=name, timeout_s=1)
        self.assertEqual("timeout", r.reason)
        self.assertEqual("5", self.value("x", session=s, kernel=name))
        self.assertFalse(self.client.tool("session", action="interrupt", session=s).is_error)
        self.assertEqual("cancelled", self.client.finish(call, 5).reason)

    def test_refusals(self):
        """threads are named; a busy kernel, a name in use and kernels that are none are refused"""
        s = self.open()
        self.assertIn("nothing to fork", self.fork(s).text)
        self.py("import threading, time; e = threading.Event()\n"
                "t = threading.Thread(target=e.wait, name='fetcher'); t.start()", session=s)
        self.assertRefused(self.fork(s), "fetcher", "end them first")
        self.py("e.set(); t.join()", session=s)
        self.assertRefused(self.fork(s, kernel="nope"), "nope", "python")
        self.assertRefused(self.fork(s, name="python"), "runs already", "choose another name")
        self.assertRefused(self.fork(s, name="a b"), "letters")
        call = self.client.start("run_code", language="python", code="time.sleep(60)", session=s)
        self.assertTrue(until(lambda: self.kernels(s)["python"]["busy"], 5))
        self.assertRefused(self.fork(s), "a cell runs")
        self.client.tool("session", action="interrupt", session=s)
        self.client.finish(call, 5)
        self.twin(s)

    def test_a_shell_has_no_twin(self):
        """the refusal of a kernel that cannot fork comes at once"""
        s = self.open()
        self.assertDone(self.client.tool("run_code", language="shell", code="x=1", session=s))
        self.assertRefused(self.fork(s, kernel="shell"), "cannot be forked", "no fork")

    def test_what_is_shared(self):
        """files, databases and sockets that both have open are named"""
        s = self.open()
        self.py("import sqlite3, socket; db = sqlite3.connect('a.db'); s = socket.socket()", session=s)
        r = self.fork(s)
        self.assertFalse(r.is_error, str(r))
        shared = r.data["shared"]
        self.assertEqual(2, len(shared), shared)
        self.assertTrue(shared[0].endswith("/a.db"), shared)
        self.assertEqual("1 socket", shared[1])
        self.assertIn("both have open", r.text)

    @only("bubblewrap")
    def test_limits(self):
        """a limit of processes is a refusal, and the kernel lives"""
        s = self.open()
        r = self.py("import os, subprocess; x = 5; p = []\ntry:\n"
                    "  while len(p) < 1000: p.append(subprocess.Popen(['sleep', '60']))\n"
                    "except OSError: print('full')", session=s)
        self.assertIn("full", r.stdout, str(r))
        self.assertRefused(self.fork(s), "process")
        self.py("for q in p: q.kill(); q.wait()", session=s)
        self.assertEqual("5", self.value("x", session=s, kernel=self.twin(s)))

    def test_children(self):
        """each has its own children: what one leaves ends with it alone"""
        s = self.open()
        self.py("import subprocess", session=s)
        name = self.twin(s)
        for kernel, seconds in (("python", "61.1234"), (name, "62.1234")):
            self.py(f"subprocess.run(['setsid', '-f', 'sleep', '{seconds}'])", session=s, kernel=kernel)
        def alive(seconds):
            return len(self.sandbox_processes(seconds))
        self.assertTrue(until(lambda: alive("61.1234") == alive("62.1234") == 1, 3))
        self.client.tool("session", action="restart", session=s)
        self.assertEqual((0, 1), (alive("61.1234"), alive("62.1234")))
        self.client.tool("session", action="restart", session=s, kernel=name)
        self.assertTrue(until(lambda: alive("62.1234") == 0, 3))

    def test_a_large_frame(self):
        """400 MB of numbers are forked in milliseconds and kept once"""
        s = self.open()
        r = self.py("import numpy as np; a = np.ones(50_000_000)", session=s)
        if r.error:
            self.skipTest("numpy is not installed")
        self.assertDone(r)
        took = []
        for i in range(3):
            start = time.monotonic()
            name = self.twin(s)
            self.assertEqual("(50000000,)", self.value("a.shape", session=s, kernel=name))
            took.append(time.monotonic() - start)
        # Against what forking such a process costs here and now: three forks, and answers.
        bare = float(self.value(BARE_FORK, session=s))
        self.assertLess(min(took), 0.1 + 10 * bare, took)
        memory = self.client.tool("session", action="info", session=s).data["usage"].get("memoryBytes")
        if memory:
            self.assertLess(memory, 700e6)


if __name__ == "__main__":
    harness.main()
