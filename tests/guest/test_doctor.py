#!/usr/bin/python3
"""What `scb doctor` says: with a service manager, without one, and on a machine that lacks something
(SCB_EXPECT: the setting that only root can put right)."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402

EXPECT = os.environ.get("SCB_EXPECT")


class Doctor(unittest.TestCase):
    def test_doctor(self):
        """doctor says what there is, and what to do about what there is not"""
        done = harness.Place().scb("doctor", timeout=60)
        words = " ".join(done.stdout.split())
        bubblewrap = words.split(" local: ")[0]
        if EXPECT:
            self.assertIn("bubblewrap: not usable", bubblewrap)
            self.assertIn(f"sudo sysctl -w {EXPECT}", bubblewrap)
            self.assertNotEqual(0, done.returncode)
            return
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("bubblewrap: usable", bubblewrap)
        for limit in ("memory", "processes", "cpu"):
            self.assertEqual(bool(harness.MANAGER), f"{limit} cgroup2" in bubblewrap, words)
        self.assertEqual(not harness.MANAGER, "Delegate=yes" in bubblewrap, words)


if __name__ == "__main__":
    harness.main()
