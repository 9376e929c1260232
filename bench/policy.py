"""policy.py: what a call pays for being asked about."""
import os
import subprocess

from report import Row


def policy(bench):
    run = subprocess.run([os.path.join(bench.build, "bench/bench-policy")], capture_output=True, text=True, check=True)
    value = {name: float(v) for name, v in map(str.split, run.stdout.splitlines())}
    yield Row("a call's questions to the built-in policy", "ns", value["built_in"])
    yield Row("the same to a file with 20 principals", "ns", value["file"])
