#!/usr/bin/python3
"""Live interpreters: state that lasts, the shell, rich results, long output searched, ends told."""
import time
import unittest

import harness
from harness import Case, only, until

TABLE = "application/vnd.scb.table+json"


def has(module):
    import subprocess
    return subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True).returncode == 0


class Shell(Case):
    """run_code with language shell."""

    def cell(self, code, **arguments):
        return self.client.tool("run_code", language="shell", code=code, **arguments)

    def test_state(self):
        """folder, environment, functions and options stay between cells"""
        s = self.open()
        self.assertDone(self.cell("cd /tmp && export A=1; f() { echo f $1; }; x=(a 'b c')", session=s))
        r = self.cell("pwd; echo $A; f 2; echo ${x[1]}", session=s)
        self.assertEqual("/tmp\n1\nf 2\nb c\n", r.stdout, str(r))
        self.assertEqual("shell", r.kernel)
        self.assertNotIn("/tmp\n", self.sh("pwd", session=s).stdout)  # commands know nothing of it

    def test_exit_keeps_state(self):
        """exit and a failing set -e end the cell with their status and keep the state"""
        s = self.open()
        self.cell("x=1", session=s)
        self.assertDone(self.cell("echo a; exit 3; echo b", session=s), 3)
        r = self.cell("echo $? $x", session=s)
        self.assertEqual("3 1\n", r.stdout, str(r))
        self.assertNotIn("lost", r.text)
        r = self.cell("set -e\nfalse\necho not reached", session=s)
        self.assertDone(r, 1)
        self.assertEqual("", r.stdout)
        self.assertEqual("1\n", self.cell("set +e; echo $x", session=s).stdout)
        r = self.cell("x=2; exec false", session=s)
        self.assertDone(r, 1)
        self.assertIn("new shell", r.stderr)
        self.assertEqual("1\n", self.cell("echo $x", session=s).stdout)

    def test_unbalanced(self):
        """what a cell leaves open is its own syntax error, and the next one runs"""
        s = self.open()
        for code in ('echo "open', "if true; then", "echo $(", "cat <<'E'"):
            r = self.cell(code, session=s)
            self.assertFalse(r.is_error, str(r))
            self.assertEqual("next\n", self.cell("echo next", session=s).stdout, code)

    def test_timeout_and_interrupt(self):
        """a cell that is stopped leaves the state; what it started in the background lives"""
        s = self.open()
        self.cell("x=41; sleep 61.25 & echo", session=s)
        r = self.cell("sleep 60.75; echo no", session=s, timeout_s=1)
        self.assertDone(r, None, "timeout")
        self.assertFast(r, 2)
        self.assertTrue(until(lambda: not self.sandbox_processes("sleep 60.75"), 1))
        call = self.client.start("run_code", language="shell", code="while :; do :; done", session=s)
        time.sleep(0.5)
        self.assertFalse(self.client.tool("session", action="interrupt", kernel="shell", session=s).is_error)
        self.assertDone(self.client.finish(call, 10), None, "cancelled")
        self.assertEqual("42\n", self.cell("echo $((x + 1))", session=s).stdout)
        self.assertTrue(self.sandbox_processes("sleep 61.25"))

    def test_death(self):
        """kill $$ is the interpreter's death, and the next cell says that state was lost"""
        s = self.open()
        self.cell("x=1", session=s)
        r = self.cell("kill $$; sleep 5", session=s)
        self.assertDone(r, None, "interpreter_died")
        self.assertEqual(("SIGTERM", "measured"), (r.exit["signal"], r.exit["evidence"]))
        r = self.cell("echo ${x-none}", session=s)
        self.assertEqual("none\n", r.stdout)
        self.assertIn("state was lost", r.text)

    def test_stdin(self):
        """stdin is empty unless given"""
        self.assertEqual("", self.cell("cat").stdout)
        self.assertEqual("one\ntwo\n", self.cell("read a; echo $a; cat", stdin="one\ntwo\n").stdout)

    def test_languages_and_names(self):
        """several interpreters a session; a name belongs to one language"""
        s = self.open()
        self.cell("x=shell", session=s)
        self.cell("x=second", session=s, kernel="two")
        self.py("x = 'python'", session=s)
        self.assertEqual("shell\n", self.cell("echo $x", session=s).stdout)
        self.assertEqual("second\n", self.client.tool("run_code", code="echo $x", session=s, kernel="two").stdout)
        self.assertEqual("python\n", self.py("print(x)", session=s).stdout)
        for language, kernel in (("python", "two"), ("python", "shell"), ("shell", "python")):
            r = self.client.tool("run_code", language=language, code="1", session=s, kernel=kernel)
            self.assertRefused(r, kernel, "runs", "another name")
        info = self.client.tool("session", action="info", session=s)
        self.assertEqual({"python", "shell", "two"}, {k["name"] for k in info.data["kernels"]})

    @unittest.skipIf(harness.PROVIDER == "local", "local has no disk of its own that could be filled")
    def test_full_disk(self):
        """a shell's cell that fills the disk is told so, and the state outlives it"""
        s = self.open()
        self.cell("x=1", session=s)
        r = self.cell("dd if=/dev/zero of=/workspace/big bs=1M count=100000", session=s)
        self.assertDone(r, 1, "disk_full")
        self.assertEqual("reported", r.exit["evidence"])
        self.assertDone(self.cell("exit 2", session=s), 2)
        self.assertEqual("1\n", self.cell("echo $x; rm /workspace/big", session=s).stdout)


class Results(Case):
    @unittest.skipUnless(has("matplotlib"), "matplotlib is not installed")
    def test_figure(self):
        """a figure is shown without show(), once, and not again by the next call"""
        s = self.open()
        r = self.py("import matplotlib.pyplot as plt; plt.plot([1,2])", session=s, timeout_s=100, wait_s=50)
        self.assertDone(r)
        self.assertEqual(1, sum("image/png" in x["mime"] for x in r.results), str(r))
        r = self.py("1", session=s)
        self.assertEqual(["1"], [x["mime"].get("text/plain") for x in r.results])
        r = self.py("plt.plot([1]); plt.show(); plt.show()", session=s, wait_s=50)
        self.assertEqual(1, len(r.results), str(r))

    @unittest.skipUnless(has("pandas"), "pandas is not installed")
    def test_frame(self):
        """a frame is a typed table, missing values kept as missing, beside its text"""
        s = self.open()
        r = self.py('import pandas as pd; pd.DataFrame({"a":[1,None],"b":["x","y"]})', session=s, wait_s=50)
        self.assertDone(r)
        table = r.results[0]["mime"][TABLE]
        self.assertEqual([("a", "number"), ("b", "string")], [(c["name"], c["type"]) for c in table["schema"]])
        self.assertEqual([[1, None], ["x", "y"]], table["data"])
        self.assertIn("NaN", r.text)
        r = self.py("pd.DataFrame({'n': range(3000)})", session=s)
        self.assertIn(".iloc[FROM:TO]", r.text)

    def test_await_and_magics(self):
        """top-level await, and IPython's commands where it is there"""
        s = self.open()
        r = self.py("import asyncio\nawait asyncio.sleep(0); 5", session=s)
        self.assertEqual("5", r.results[0]["mime"]["text/plain"], str(r))
        self.sh("touch seen", session=s)
        for code, word in (("!ls", "seen"), ("%timeit -n 1 -r 1 1", "per loop")):
            r = self.py(code, session=s, wait_s=50)
            if has("IPython"):
                self.assertIn(word, r.stdout, str(r))
            else:
                self.assertEqual("IPythonNotAvailable", r.error["name"], str(r))


class Output(Case):
    def test_search(self):
        """a long output is bounded in the answer, and its middle is found by a search"""
        s = self.open()
        r = self.py("for i in range(50000): print('a' * 200 if i != 25000 else 'b' * 150 + ' needle')", session=s)
        self.assertDone(r)
        self.assertLess(len(r.stdout), 26_000)
        self.assertGreater(r.omitted["stdout"], 9_000_000)
        self.assertIn("action=search", r.text)
        found = self.client.tool("job", action="search", job=r.job, pattern="needle")
        self.assertFalse(found.is_error, found.text)
        self.assertEqual([("stdout", 201 * 25000 + 151, "b" * 150 + " needle", False)],
                         [(h["stream"], h["offset"], h["text"], found.more) for h in found.hits])
        found = self.client.tool("job", action="search", job=r.job, pattern="aaa", limit=200)
        self.assertLess(len(found.text), 40_000)
        self.assertTrue(found.more)
        again = self.client.tool("job", action="search", job=r.job, pattern="aaa", limit=1,
                                 stream=found.nextStream, offset=found.nextOffset)
        self.assertGreater(again.hits[0]["offset"], found.hits[-1]["offset"])
        none = self.client.tool("job", action="search", job=r.job, pattern="no such text")
        self.assertEqual(([], False), (none.hits, none.more))
        self.assertRefused(self.client.tool("job", action="search", job=r.job), "pattern")

    def test_progress(self):
        """2,000 states of a progress bar are one line in the answer, and all in the log"""
        s = self.open()
        r = self.py("for i in range(2000): print(f'{i} of 2000', end='\\r')", session=s)
        self.assertDone(r)
        self.assertEqual("1999 of 2000", r.stdout.strip())
        log = self.client.tool("job", action="read", job=r.job, length=200_000)
        self.assertEqual(2000, log.data["text"].count("of 2000"))
        r = self.py("for i in range(50):\n  print(f'a {i}'); print(f'b {i}')\n  if i < 49: print('\\x1b[2A', end='')", session=s)
        self.assertEqual("a 49\nb 49\n", r.stdout)

    def test_wait_from_elsewhere(self):
        """a job's result, waited for by handle from another connection, is the same each time"""
        s = self.open()
        r = self.sh("echo one; sleep 2; echo two; exit 4", session=s, wait_s=1)
        self.assertEqual("running", r.status, str(r))
        answers = []
        for _ in range(2):
            other = self.place.serve()
            other.initialize()
            answers.append(other.tool("job", action="wait", job=r.job, session=s))
            other.close()
        for a in answers:
            self.assertDone(a, 4)
            self.assertEqual(("one\ntwo\n", answers[0].durationMs), (a.stdout, a.durationMs))

    def test_idempotency(self):
        """one key is one run: asked again while it runs and afterwards, the same answer"""
        s = self.open()
        arguments = {"code": "import time\nprint('ran', flush=True); open('runs', 'a').write('x'); time.sleep(1.5); 7",
                     "session": s, "idempotency_key": f"k-{time.monotonic_ns()}"}
        first = self.client.start("run_code", **arguments)
        time.sleep(0.5)
        second = self.client.start("run_code", **arguments)
        a, b = self.client.finish(first), self.client.finish(second)
        c = self.client.tool("run_code", **arguments)
        for r in (a, b, c):
            self.assertDone(r)
            self.assertEqual(("ran\n", a.job, "7"), (r.stdout, r.job, r.results[0]["mime"]["text/plain"]))
        self.assertEqual("x", self.sh("cat runs", session=s).stdout)

    def test_queue_limit(self):
        """a seventeenth cell that would wait is refused in words, and the others run"""
        s = self.open()
        self.py("1", session=s)
        calls = [self.client.start("run_code", language="python", session=s, code="import time; time.sleep(0.05)")
                 for _ in range(24)]
        done = [self.client.finish(c) for c in calls]
        refused = [r for r in done if r.is_error]
        self.assertTrue(all("wait" in r.text.lower() for r in refused), [r.text for r in refused])
        self.assertGreaterEqual(len(done) - len(refused), 17)

    @only("bubblewrap", "docker")
    def test_limits_seen(self):
        """free speaks of the sandbox's memory, or of the machine's: never of less than the limit"""
        r = self.sh("free -m | awk '/^Mem/ {print $2}'")
        self.assertDone(r)
        self.assertGreaterEqual(int(r.stdout), 1000)


if __name__ == "__main__":
    harness.main()
