"""redact.py: looking through what leaves for secrets."""
import os
import subprocess

from report import Row


def redact(bench):
    run = subprocess.run([os.path.join(bench.build, "bench/bench-redact")], capture_output=True, text=True, check=True)
    value = {name: float(v) for name, v in map(str.split, run.stdout.splitlines())}
    for what, bar in (("ordinary", 1000 / 300), ("hostile", None)):
        speed = value[what + "_mb_s"]
        yield Row(f"1 GB of {what} output for 20 secrets", "s", 1000 / speed, bar=bar, note=f"{speed:.0f} MB/s")
    yield Row("table of 20 secrets of 40 bytes", "KiB", value["table_kib"], bar=4096)
    yield Row("the texts of a short answer for 1 secret", "µs", value["answer_us"])
