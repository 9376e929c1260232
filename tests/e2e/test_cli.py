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

    def failed(self, status, *arguments, **env):
        """Fails with this status and one line on stderr, which is returned."""
        done = self.place.scb(*arguments, **env)
        self.assertEqual((status, ""), (done.returncode, done.stdout), done.stderr)
        self.assertRegex(done.stderr, r"\Ascb: [^\n]+\n\Z")
        return done.stderr

    def test_wrong_options(self):
        """a wrong option: one line that names it, and the documented status"""
        for command in (["serve"], ["run", "-c", "1"]):
            with self.subTest(command=command):
                self.assertIn("/nowhere", self.failed(64, *command, "--mount", "x=/nowhere"))
                self.assertIn("128M", self.failed(64, *command, "--limit", "memory=x"))
                self.assertIn("wait_s", self.failed(64, *command, "--limit", "colour=red"))
                said = self.failed(64, *command, "--provider", "podmann")
                self.assertIn("--provider", said)
                self.assertNotIn("BROKER_PROVIDER", said)
                self.assertIn("BROKER_PROVIDER", self.failed(64, *command, BROKER_PROVIDER="podmann"))
                self.failed(74, *command, "--state", "/proc/x")
        self.assertNotIn("\x1b", self.failed(64, "run", "--a\x1b[2J"))
        self.assertEqual(64, self.place.scb("doctor", BROKER_PROVIDER="podmann").returncode)

    def test_help(self):
        """each command has --help, which names every limit"""
        limits = self.failed(64, "serve", "--limit", "colour=red").split("names ", 1)[1].strip().split(", ")
        self.assertGreater(len(limits), 10)
        for command in ([], ["serve"], ["run"], ["doctor"]):
            done = self.place.scb(*command, "--help")
            self.assertEqual(0, done.returncode, done.stderr)
            for name in limits:
                self.assertIn(f" {name}=", done.stdout)
        self.assertEqual("--help\n", self.place.scb("run", "-c", "print('--help')").stdout)
        self.assertIn("SyntaxError", self.place.scb("run", "-c", "--help=").stderr)

    def test_time_runs_out(self):
        """the time limit is the given one, and the words are for a person"""
        for option in (("--timeout", "1"), ("--limit", "timeout_s=1")):
            done = self.place.scb("run", *option, "--language", "shell", "-c", "sleep 20")
            self.assertEqual((124, ""), (done.returncode, done.stdout))
            self.assertIn("--timeout", done.stderr)
            for word in ("wait_s", "action", "tool"):
                self.assertNotIn(word, done.stderr)


if __name__ == "__main__":
    harness.main()
