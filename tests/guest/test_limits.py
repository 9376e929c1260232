#!/usr/bin/python3
"""What a session says of its limits, against what really happens.

SCB_EXPECT has what the place where this runs must lead to, as NAME=VALUE of a session's `enforced`.
"""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
from harness import Case, descendants, until  # noqa: E402

EXPECT = dict(pair.split("=", 1) for pair in os.environ["SCB_EXPECT"].split())
MIB = 1 << 20
# Memory of three kinds, each beyond the limit: what one process has, shared memory (no RLIMIT_DATA
# counts it), and what several have together.
HEAP = "b = bytearray(240 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('survived')"
SHARED = "import mmap\nb = mmap.mmap(-1, 240 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('survived')"
TOGETHER = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        b = bytearray(60 << 20)
        for i in range(0, len(b), 4096): b[i] = 1
        time.sleep(3)
        os._exit(0)
ended = [os.wait()[1] for _ in range(4)]
print(sum(s == 9 for s in ended), "killed,", ended.count(0), "survived")
"""
BURN = """
import os, time
end = time.monotonic() + 4
pids = [os.fork() for _ in range(1)]
while time.monotonic() < end: pass
if pids == [0]: os._exit(0)
os.wait()
print(sum(os.times()[:4]))
"""
FORKS = """
import os, time
n = 0
try:
    while n < 200:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        n += 1
except OSError as e:
    print(n, e.errno)
    raise
"""
STORM = """
import os, time
for _ in range(50):
    if os.fork() == 0:
        os.setsid()
        time.sleep(100)
        os._exit(0)
"""


def expected(name, kind="cgroup2"):
    return EXPECT.get(name) == kind


class Limits(Case):
    """A broker with one CPU, 160 MiB and 64 processes for code."""

    SERVE = tuple(a for v in ("memory=160M", "workspace=48M", "tmp=16M", "shm=16M", "cpus=1", "pids=64")
                  for a in ("--limit", v))

    def python(self, session, program, **more):
        return self.client.tool("run_command", session=session, argv=["python3", "-c", program], wait_s=50, **more)

    def group(self, session):
        """The directory of a session's control group."""
        ids = {e["sandboxId"] for e in self.place.audit() if e.get("session") == session and e.get("sandboxId")}
        found = [d for d in glob.glob("/sys/fs/cgroup/**/x-*", recursive=True) if os.path.basename(d) in ids]
        self.assertEqual(1, len(found), (ids, found))
        return found[0]

    def value(self, *path):
        with open(os.path.join(*path)) as f:
            return f.read().strip()

    def test_said(self):
        """session info says what this place can hold, and no more"""
        info = self.client.tool("session", action="info", session=self.open())
        said = info.data["enforced"]
        self.assertEqual(EXPECT, {name: said[name] for name in EXPECT}, info.text)

    def test_group(self):
        """the group's files hold the numbers that were asked for"""
        if not expected("memory"):
            self.skipTest("no control group")
        group = self.group(self.open())
        code = os.path.join(group, "code")
        self.assertEqual(str(160 * MIB), self.value(code, "memory.max"))
        self.assertEqual("64", self.value(code, "pids.max"))
        self.assertEqual("0", self.value(code, "memory.oom.group"))
        if expected("cpu"):
            self.assertEqual("100000 100000", self.value(code, "cpu.max"))
        self.assertGreater(int(self.value(group, "agent", "memory.current")), 0)
        self.assertEqual("1", self.value(group, "cgroup.events").split()[1])

    def test_memory_of_one(self):
        """one process beyond the memory: out_of_memory, measured; the session goes on"""
        s = self.open()
        r = self.python(s, SHARED if expected("memory") else HEAP)
        self.assertNotIn("survived", r.stdout or "")
        if expected("memory"):
            self.assertEqual(("out_of_memory", "measured"), (r.reason, r.exit["evidence"]), str(r))
            self.assertTrue(r.exit["remedy"])
        else:
            self.assertIn("MemoryError", r.stderr)
        self.assertDone(self.sh("echo fine", session=s))

    def test_memory_of_a_cell(self):
        """a cell beyond the memory: out_of_memory, measured; a new kernel works"""
        if not expected("memory"):
            self.skipTest("no control group")
        s = self.open()
        r = self.py(HEAP, session=s, wait_s=50)
        self.assertEqual(("out_of_memory", "measured"), (r.reason, r.exit["evidence"]), str(r))
        self.assertEqual("42\n", self.py("print(6 * 7)", session=s).stdout)

    def test_memory_together(self):
        """processes that together pass the limit: some are killed, and it is noted"""
        if not expected("memory"):
            self.skipTest("nothing limits the sandbox as a whole, as its capabilities say")
        s = self.open()
        r = self.python(s, TOGETHER)
        self.assertDone(r)
        self.assertNotEqual("0 killed", r.stdout[:8])
        self.assertIn("memory limit", str(r.exit["notes"]), str(r))
        peak = int(self.value(self.group(s), "code", "memory.peak"))
        self.assertLessEqual(peak, 160 * MIB)

    def test_processes(self):
        """more processes than allowed: too_many_processes; never more than the limit"""
        s = self.open()
        r = self.python(s, FORKS)
        self.assertEqual("too_many_processes", r.reason, str(r))
        self.assertLessEqual(int(r.stdout.split()[0]), 64)
        if expected("pids"):
            self.assertIn(r.exit["evidence"], ("measured", "reported"), str(r))
            self.assertLessEqual(int(self.value(self.group(s), "code", "pids.current")), 64)

    def test_cpu(self):
        """two busy processes get one CPU's time"""
        r = self.python(self.open(), BURN, timeout_s=60)
        self.assertDone(r)
        if not expected("cpu"):
            self.skipTest("not limited, as its capabilities say")
        self.assertLess(float(r.stdout), r.durationMs / 1000 * 1.25, str(r))

    def test_kill(self):
        """closing ends a storm of processes at once"""
        s = self.open()
        before = set(descendants(self.client.pid))
        self.python(s, STORM)
        self.assertTrue(until(lambda: len(set(descendants(self.client.pid)) - before) > 40, 5, 0.5))
        group = self.group(s) if EXPECT["killTree"] == "cgroup.kill" else None
        if group:
            self.assertTrue(os.access(os.path.join(group, "cgroup.kill"), os.W_OK))
        storm = [p for p in set(descendants(self.client.pid)) - before]
        self.assertFalse(self.client.tool("session", action="close", session=s).is_error)
        self.assertTrue(until(lambda: not any(harness.alive(p) for p in storm), 1))
        if group:
            self.assertTrue(until(lambda: not os.path.exists(group), 1), group)

    def test_broker_apart(self):
        """the broker is in a leaf of its own, beside the groups of its sandboxes"""
        if not expected("memory") or harness.MODE == "root":
            self.skipTest("only in a delegated group")
        self.open()
        with open(f"/proc/{self.client.pid}/cgroup") as f:
            own = re.search(r"^0::(.*)$", f.read(), re.M)[1]
        self.assertEqual("scb-broker", os.path.basename(own))
        self.assertTrue(os.path.isdir("/sys/fs/cgroup" + os.path.dirname(own) + "/scb"))


if __name__ == "__main__":
    harness.main()
