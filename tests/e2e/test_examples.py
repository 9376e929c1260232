#!/usr/bin/python3
"""examples/session-identity runs, and its lines say what it claims; nothing of it stays."""
import os
import re
import shutil
import subprocess
import unittest

import harness
from harness import SLOW, Place

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


class SessionIdentity(unittest.TestCase):
    def test_lines(self):
        """each call in the sandbox that the rules give it: counts of one interpreter go on over all"""
        place = Place()
        example = shutil.copytree(os.path.join(EXAMPLES, "session-identity"), os.path.join(place.top, "example"))
        subprocess.run(["chmod", "-R", "a+rX", example], check=True)
        env = place.environment(SCB=os.path.join(place.bin, "scb"), TMPDIR=place.folder("tmp"), PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([*place.prefix, "/usr/bin/python3", os.path.join(example, "main.py")], env=env, cwd=place.home,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200 * SLOW)
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        self.assertTrue(all(len(line) <= 100 for line in done.stdout.splitlines()))
        counts, names, refused = {}, {}, 0
        for who, handle, where in re.findall(r"^     (\S.*?) {2,}(no handle|session s-\w+…) +→  (.*)$", done.stdout, re.M):
            found = re.fullmatch(r"sandbox (\d+)   count (\d+)( +new)?", where)
            if not found:
                self.assertTrue(where.startswith("refused: No such session"), where)
                refused += 1
                continue
            number, count = int(found[1]), int(found[2])
            self.assertEqual(counts.get(number, 0) + 1, count, where)
            self.assertEqual(count == 1, bool(found[3]))
            counts[number] = count
            if handle == "no handle" and who.startswith("HTTP"):
                self.assertEqual(1, count)
            elif handle == "no handle":
                self.assertEqual(number, names.setdefault(who, number))
        self.assertEqual((3, 23), (refused, refused + sum(counts.values())))
        self.assertEqual({"host A": 1, "host B": 2, "host B, again": 7}, names)
        self.assertEqual([], os.listdir(os.path.join(place.top, "tmp")))
        self.assertEqual([], place.leftovers())


if __name__ == "__main__":
    harness.main()
