"""start.py: from nothing to the first answer."""
import time

from report import Row
from scb import Server

PANDAS = "import pandas as pd; pd.DataFrame({'a': [1, 2, 3]}).a.sum()"


def initialize(bench):
    """The program started for a host: without a broker in its place, and beside one."""
    alone = []
    for _ in range(20):
        place = bench.place()
        server = Server(place)
        alone.append(server.started * 1e3)
        server.close()
        place.close()
    yield Row("process start to answered initialize", "ms", alone, bar=25)
    server = bench.server()
    beside = []
    for _ in range(20):
        second = Server(server.place)
        beside.append(second.started * 1e3)
        second.proc.stdin.close()
        second.proc.wait(20)
    yield Row("  … beside a running broker", "ms", beside, bar=10)


def _new_session(server, code):
    began = time.perf_counter()
    handle = server.open()
    server.tool("run_code", session=handle, code=code)
    took = time.perf_counter() - began
    server.close_session(handle)
    return took * 1e3


def _new_kernel(bench, code):
    began = time.perf_counter()
    peer = bench.new_jupyter()
    peer.run(code)
    took = time.perf_counter() - began
    peer.close()
    return took * 1e3


def _first(bench, code, rounds):
    server = bench.server()
    ours, theirs = [], []
    for _ in range(rounds):
        ours += [_new_session(server, code) for _ in range(2)]
        if bench.has_peer:
            theirs.append(_new_kernel(bench, code))
    return ours, theirs


def kernel(bench):
    ours, theirs = _first(bench, "1+1", 5)
    yield Row("new session to first result of 1+1", "ms", ours, theirs)


def pandas(bench):
    ours, theirs = _first(bench, PANDAS, 5)
    yield Row("new session to first result with pandas", "ms", ours, theirs, bar=30, ratio=1 / 40)
