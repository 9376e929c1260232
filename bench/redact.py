"""redact.py: looking through what leaves for secrets."""
import json
import os
import subprocess

import scb
from report import Row, percentile

CALLS = 1000


def redact(bench):
    run = subprocess.run([os.path.join(bench.build, "bench/bench-redact")], capture_output=True, text=True, check=True)
    value = {name: float(v) for name, v in map(str.split, run.stdout.splitlines())}
    for what, bar in (("ordinary", 1000 / 300), ("hostile", None)):
        speed = value[what + "_mb_s"]
        yield Row(f"1 GB of {what} output for 20 secrets", "s", 1000 / speed, bar=bar, note=f"{speed:.0f} MB/s")
    yield Row("table of 20 secrets of 40 bytes", "KiB", value["table_kib"], bar=4096)
    yield Row("the texts of a short answer for 1 secret", "µs", value["answer_us"])
    yield from warm(bench)


def server(bench, secrets):
    """One whose policy is what is built in, but for so many secrets."""
    place = bench.place()
    names = [f"T{i}" for i in range(secrets)]
    policy = {"version": 1, "outputs": {"allow": True},
              "tools": {"allow": ["run_code", "run_command", "job", "files", "present_output", "session"]},
              "secrets": {n: {"source": "env:" + n, "exposure": "session", "variable": n} for n in names}}
    path = os.path.join(place.top, "policy.json")
    with open(path, "w") as f:
        json.dump(policy, f)
    os.chmod(path, 0o600)
    return scb.Server(place, "--policy", path, **{n: f"ghp_aB3xQ9Zq8RmK2v77Lp{n:>4}" for n in names})


def warm(bench):
    """Calls to servers with and without, in turn."""
    servers = {n: server(bench, n) for n in (0, 1, 20)}
    times = {n: [] for n in servers}
    for s in servers.values():
        for _ in range(200):
            s.tool("run_code", code="1+1")
    for _ in range(CALLS):
        for n, s in servers.items():
            times[n].append(s.time_tool("run_code", code="1+1").net * 1e3)
    for s in servers.values():
        s.close()
    without = percentile(times[0], 0.1)  # of a busy machine the fastest tenth tells most
    for n in servers:
        more = percentile(times[n], 0.1) - without
        yield Row(f"run_code 1+1, {n or 'no'} secret{'' if n == 1 else 's'}", "ms", times[n],
                  note=f"{more * 1e3:+.1f} µs, {more / without:+.1%}" if n else "")
