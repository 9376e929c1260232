#!/usr/bin/python3
"""The command line: what `scb run` prints and how it ends, what is said of wrong options."""
import unittest

import harness


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = harness.Place()

    def test_long_output(self):
        """output longer than one piece arrives exactly, on both streams"""
        for n in (65_536, 66_000, 5_000_000):
            with self.subTest(n=n):
                done = self.place.scb("run", "--language", "shell", "-c",
                                      f"head -c {n} /dev/zero | tr '\\0' x; head -c {n} /dev/zero | tr '\\0' y >&2")
                self.assertEqual(0, done.returncode, done.stderr[:1000])
                self.assertEqual((n, n), (done.stdout.count("x"), done.stderr.count("y")))
                self.assertEqual((n, n), (len(done.stdout), len(done.stderr)))


if __name__ == "__main__":
    harness.main()
