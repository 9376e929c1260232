"""floor.py: what the machine itself takes, in the same run: beside it stand our figures.

As a program: a Python with the libraries loaded that forks a child for each line that it reads. The
child runs CODE and tells how many ms after the fork it was done.
"""
import os
import subprocess
import sys
import time


class Chain:
    """Four processes that only pass a message on (floor.c)."""

    NAME = "  … the machine's floor: four only pass it on"

    def __init__(self, build):
        self._proc = subprocess.Popen([os.path.join(build, "bench", "floor")], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)

    def samples(self, calls, gap):
        """In ms."""
        print(calls, int(gap * 1e6), file=self._proc.stdin, flush=True)
        return [float(us) / 1e3 for us in self._proc.stdout.readline().split()]

    def close(self):
        self._proc.communicate()


class Fork:
    """One fork of a loaded Python, nothing around it."""

    NAME = "  … bare: one fork of a Python with all loaded"

    def __init__(self, code):
        self._proc = subprocess.Popen(["/usr/bin/python3", os.path.abspath(__file__), code], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.works = self._proc.stdout.readline() == "ready\n"

    def sample(self):
        """In ms."""
        print(file=self._proc.stdin, flush=True)
        return float(self._proc.stdout.readline())

    def close(self):
        self._proc.communicate()


def _loaded(code):
    import gc

    import matplotlib.pyplot  # noqa: F401
    import numpy  # noqa: F401
    import pandas  # noqa: F401
    exec(code, {})
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            exec(code, {})
            print((time.perf_counter() - began) * 1e3, flush=True)
            os._exit(0)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    _loaded(sys.argv[1])
