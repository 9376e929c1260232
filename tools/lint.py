"""lint.py: what the check-… scripts share: which files there are, C without its comments, TAP."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def sources(*folders, ext=(".c", ".h")):
    """Paths below ROOT, relative to it, sorted."""
    found = []
    for folder in folders:
        for where, dirs, names in os.walk(os.path.join(ROOT, folder)):
            dirs[:] = [d for d in dirs if d not in ("node_modules", "__pycache__", "corpus")]
            found += [os.path.join(where, n) for n in names if n.endswith(ext)]
    return sorted(os.path.relpath(path, ROOT) for path in found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def strip(text, strings=True):
    """C without comments (and without what stands in string literals); line numbers stay."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(m):
        s = m.group()
        if s[0] == "/":
            return re.sub(r"[^\n]", " ", s)
        if s[0] == '"' and strings:
            return '"' + " " * (len(s) - 2) + '"'
        return s

    return pattern.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


class Tap:
    """One test a thing that is looked at; its faults come as diagnostics."""

    def __init__(self):
        self.n = 0
        self.failed = False

    def result(self, name, faults=(), notes=()):
        self.n += 1
        faults = list(faults)
        print(f"{'not ok' if faults else 'ok'} {self.n} - {name}")
        for text in faults + list(notes):
            print(f"# {text}")
        self.failed |= bool(faults)

    def skip_all(self, reason):
        print(f"1..0 # SKIP {reason}")
        sys.exit(0)

    def done(self):
        print(f"1..{self.n}")
        sys.exit(1 if self.failed else 0)
