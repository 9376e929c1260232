#!/usr/bin/python3
"""The examples run, and their lines say what they claim; nothing of them stays."""
import csv
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

    def test_dashboards(self):
        """three dashboards on real data, moved: less runs again than there is, and the figures are pandas'"""
        place = Place()
        examples = shutil.copytree(EXAMPLES, os.path.join(place.top, "examples"))
        subprocess.run(["chmod", "-R", "a+rX", examples], check=True)
        env = place.environment(SCB=os.path.join(place.bin, "scb"), PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([*place.prefix, "/usr/bin/python3", os.path.join(examples, "dashboard", "main.py")], env=env,
                              cwd=place.home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200 * SLOW)
        place.end()
        if "KeyError" in done.stderr and "contents" in done.stderr:
            self.skipTest("scb was built without the page")
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        moves = re.findall(r"(\d+) of (\d+) statements ran again", done.stdout)
        self.assertEqual(10, len(moves))
        self.assertTrue(all(0 < int(ran) < int(there) for ran, there in moves), moves)
        with open(os.path.join(EXAMPLES, "data", "birdstrikes.csv"), newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        large = [row for row in rows if row["Wildlife Size"] == "Large"]
        self.assertIn(f"Strikes: {len(large):,}\n", done.stdout)
        self.assertIn(f"Cost: {sum(int(row['Cost Total $']) for row in large):,}\n", done.stdout)


if __name__ == "__main__":
    harness.main()
