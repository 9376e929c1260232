"""What the tests of the agent share: a fresh agent a test, kernels, finding processes."""

import os
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import tap  # noqa: E402, F401
from agentclient import *  # noqa: E402,F403

HERE = os.path.dirname(os.path.abspath(__file__))
TEST_KERNEL = ["/usr/bin/python3", os.path.join(HERE, "testkernel.py")]
PYTHON_KERNEL = ["/usr/bin/python3", os.path.join(ROOT, "build/kernels/python/kernel.py")]
if not os.path.exists(PYTHON_KERNEL[1]):
    PYTHON_KERNEL[1] = os.path.join(ROOT, "kernels/python/kernel.py")


NOT_DUMPABLE = "root alone is shown this of a process that is not dumpable"


def descriptors(pid):
    """How many it has. Skips the test where that is not shown."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        raise unittest.SkipTest(NOT_DUMPABLE) from None


def private_kib(pid):
    """Memory that it has written to. Skips the test where that is not shown."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            fields = dict(line.split(":", 1) for line in f if ":" in line)
    except PermissionError:
        raise unittest.SkipTest(NOT_DUMPABLE) from None
    return int(fields["Private_Dirty"].split()[0])


def alive(marker):
    """Processes whose command line holds the text."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = open(f"/proc/{name}/cmdline", "rb").read()
                state = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if marker.encode() in line and state != "Z" and int(name) != os.getpid():
                found.append(int(name))
    return found


_unique = iter(range(10**9))


def unique_seconds():
    """An argument for sleep that no other process has."""
    return f"300.{os.getpid()}{next(_unique):04d}"


def until(condition, seconds=3.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


class Case(unittest.TestCase):
    boot = ()
    agent_options = {}

    def setUp(self):
        self.agent = Agent(*self.boot, **self.agent_options)
        self.addCleanup(self.agent.stop)

    def ok(self, answer):
        self.assertEqual(answer.status_name, "WIRE_OK", answer)
        return answer.end

    def status(self, answer, name):
        self.assertEqual(answer.status_name, name, answer)
        return answer.end
