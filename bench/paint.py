"""paint.py: the dashboard's page in Chromium (tests/browser/paint.mjs), as tests/browser drives it.

Cold: each first paint is that of a page which has never shown anything, from the message with the model's
result to a frame with header, controls and metrics of a dashboard of 20 parts. Its share of an event is what
the page takes before the call and after the answer, with the script of dashboard.py.
"""
import json
import os
import subprocess

import dashboard
from report import Row

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "browser", "run")


def paint(bench):
    env = {**os.environ, "MAIN": "paint", "SCRIPT": dashboard.SCRIPT}
    done = subprocess.run([RUN, bench.build, os.path.join(bench.build, "ui", "app.html")], env=env,
                          stdout=subprocess.PIPE, text=True, check=False)
    if "# SKIP" in done.stdout:
        print("paint: " + done.stdout.split("# SKIP", 1)[1].strip())
        return
    if done.returncode:
        raise RuntimeError(done.stdout[-500:])
    samples = json.loads(done.stdout.splitlines()[-1])
    yield Row("page: first paint after the result, cold", "ms", samples["first"], bar=150, note="header, controls, metrics")
    yield Row("  … charts in view", "ms", samples["charts"])
    yield Row("page: its share of an event", "ms", samples["event"])
