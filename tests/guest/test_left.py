#!/usr/bin/python3
"""After all suites: nothing of any sandbox is left on the machine."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
from harness import until  # noqa: E402


class Left(unittest.TestCase):
    def test_groups(self):
        """no control group of a sandbox"""
        def groups():
            return [where for where, _, _ in os.walk("/sys/fs/cgroup") if os.path.basename(where).startswith("x-")]

        self.assertTrue(until(lambda: not groups(), 2), groups())

    def test_processes(self):
        """no agent, no bubblewrap, no broker"""
        def processes():
            lines = [harness.command_line(p) for p in os.listdir("/proc") if p.isdigit()]
            return [line for line in lines if any(w in line for w in ("scb-agent", "bwrap", "scb serve", "scb broker"))]

        self.assertTrue(until(lambda: not processes(), 2), processes())


if __name__ == "__main__":
    harness.main()
