"""warm.py: a live interpreter, one small cell after the other."""
import statistics
import time

from floor import Chain
from report import Row


def _in_turn(bench, blocks, calls, gap):
    server, peer, chain = bench.server(), bench.jupyter(), Chain(bench.build)
    ours, raw, theirs, floor = [], [], [], []
    for _ in range(200):
        server.tool("run_code", code="1+1")
    if peer:
        for _ in range(50):
            peer.run("1+1")
    for _ in range(blocks):
        for _ in range(calls):
            time.sleep(gap)
            watch = server.time_tool("run_code", code="1+1")
            ours.append(watch.net * 1e3)
            raw.append(watch.raw * 1e3)
        for _ in range(calls if peer else 0):
            time.sleep(gap)
            theirs.append(peer.time_run("1+1").net * 1e3)
        floor += chain.samples(calls, gap)
    chain.close()
    return ours, raw, theirs, floor


def _beside(floor, bar):
    """What is said of a bar that nothing can meet on this machine."""
    return "the bar is below the floor" if statistics.median(floor) > bar else ""


def back_to_back(bench):
    ours, raw, theirs, floor = _in_turn(bench, 20, 100, 0)
    yield Row("run_code 1+1, back to back", "ms", ours, theirs, bar=0.2,
              note=_beside(floor, 0.2))
    yield Row("  … with the client's own time", "ms", raw)
    yield Row(Chain.NAME, "ms", floor)


def apart(bench):
    ours, raw, theirs, floor = _in_turn(bench, 10, 30, 0.01)
    yield Row("run_code 1+1, calls 10 ms apart", "ms", ours, theirs, bar=0.5, ratio=1 / 10,
              note=_beside(floor, 0.5))
    yield Row("  … with the client's own time", "ms", raw)
    yield Row(Chain.NAME, "ms", floor)


def command(bench):
    server = bench.server()
    yield Row("run_command true", "ms", [server.time_tool("run_command", command="true").net * 1e3 for _ in range(60)])
