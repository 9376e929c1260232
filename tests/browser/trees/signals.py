#!/usr/bin/python3
"""signals.py TESTS WIDTH DPR: four signals of 100,000 points, whole and as the engine thins them out for a
page of that width: {signal: {"whole": tree, "thin": tree}} on stdout."""
import json
import os
import sys

import numpy as np

tests, width, dpr = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
sys.path[:0] = [os.path.join(tests, "..", "kernels", "python")]
from scb_dash import decimate  # noqa: E402

N = 100_000
chance = np.random.default_rng(7)
at = np.arange(N, dtype=float)
spikes = np.zeros(N)
spikes[chance.integers(0, N, 60)] = chance.normal(0, 10, 60)
SIGNALS = {
    "Noise": chance.normal(size=N),
    "Walk": np.cumsum(chance.normal(size=N)),
    "Spikes": spikes,
    "Sine": np.sin(at / 2500) + chance.normal(size=N) * 0.05,
}


def tree(title, x, y):
    whole = {"t0": 0, "step": 1, "n": N} if len(x) == N else x.tolist()
    chart = {"id": "c", "t": "chart", "kind": "line", "title": title, "x": {"t": "num", "v": whole}, "y": {},
             "s": [{"n": "y", "v": [round(v, 5) for v in y.tolist()]}]}
    return {"v": 1, "id": "d-signal00000000000000", "rev": 1, "title": "Signal", "status": "ok", "ms": 1, "notes": [], "tree": [chart]}


made = {}
for title, y in SIGNALS.items():
    keep = decimate.m4(np, at, y, decimate.buckets_for({"w": width, "dpr": dpr}))
    made[title] = {"whole": tree(title, at, y), "thin": tree(title, at[keep], y[keep])}
print(json.dumps(made))
