"""audit.py: what the audit log takes of a warm call."""
import os
import statistics
import subprocess

from report import Row

CALLS = 1000


def audit(bench):
    run = subprocess.run([os.path.join(bench.build, "bench/bench-audit")], capture_output=True, text=True, check=True)
    value = {name: float(v) for name, v in map(str.split, run.stdout.splitlines())}
    server = bench.server()
    for _ in range(200):
        server.tool("run_code", code="1+1")
    call = statistics.median(server.time_tool("run_code", code="1+1").net * 1e6 for _ in range(CALLS))
    yield Row("the audit log's part of a warm call", "%", 100 * value["chain_us"] / call, bar=10,
              note=f"{value['chain_us']:.1f} of {call:.0f} µs")
    yield Row("  … of which the lines' bytes alone", "µs", value["plain_us"])
