"""start.py: from nothing to the first answer."""
import time

from floor import Fork
from report import Row
from scb import Server, below

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


def _first_result(server, code):
    """A new session's handle and how long its first result took, in ms."""
    began = time.perf_counter()
    handle = server.open()
    server.tool("run_code", session=handle, code=code)
    return handle, (time.perf_counter() - began) * 1e3


def _new_kernel(bench, code):
    began = time.perf_counter()
    peer = bench.new_jupyter()
    peer.run(code)
    took = time.perf_counter() - began
    peer.close()
    return took * 1e3


def wait_for_pool(server, opened):
    """Until a sandbox more is there than have been opened, and has had time to warm up."""
    broker = server.place.brokers()[0]
    end = time.monotonic() + 30
    while len(below(broker, "listen:", "bwrap")) <= opened and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(1)


def empty_pool(server):
    """A session that takes the sandbox that was kept ready: who opens the next one at once, before
    the pool is filled again, gets one that has to be made."""
    wait_for_pool(server, 0)
    return server.open()


def _time(server, code, first=None):
    handle, took = _first_result(server, code)
    for each in (handle, first):
        if each:
            server.close_session(each)
    return took


def _ways(bench, code, rounds):
    """Samples of each way to a first result, and the peer's, in turn."""
    plain_server = Server(bench.place(), "--limit", "pool=0")
    ready_server = Server(bench.place())
    _time(ready_server, "1")  # from now on one is kept ready
    bare_fork = Fork(code)
    plain, pooled, forked, peer, bare = [], [], [], [], []
    for _ in range(rounds):
        plain.append(_time(plain_server, code))
        for _ in range(3):
            wait_for_pool(ready_server, 0)
            pooled.append(_time(ready_server, code))
            forked.append(_time(ready_server, code, empty_pool(ready_server)))
            if bare_fork.works:
                bare.append(bare_fork.sample())
        if bench.has_peer:
            peer.append(_new_kernel(bench, code))
    bare_fork.close()
    for server in (plain_server, ready_server):
        server.close()
        server.place.close()
    return plain, pooled, forked, peer, bare


def kernel(bench):
    plain, pooled, forked, peer, bare = _ways(bench, "1+1", 4)
    yield Row("new session to first result of 1+1, pooled", "ms", pooled, peer)
    yield Row("  … forked from the template", "ms", forked, peer)
    yield Row("  … started plainly (pool=0)", "ms", plain, peer)
    yield Row(Fork.NAME, "ms", bare)


def pandas(bench):
    plain, pooled, forked, peer, bare = _ways(bench, PANDAS, 4)
    yield Row("new session to first pandas result, pooled", "ms", pooled, peer, bar=5, ratio=1 / 40)
    yield Row("  … forked from the template", "ms", forked, peer, bar=30, ratio=1 / 40)
    yield Row("  … started plainly (pool=0)", "ms", plain, peer)
    yield Row(Fork.NAME, "ms", bare)


FRAME = """import numpy as np, pandas as pd
df = pd.DataFrame({"a": np.ones(62_500_000), "b": np.ones(62_500_000)})
df.a.sum()"""


def twin(bench):
    """A live kernel with a frame of 1 GB (10^9 bytes) forked, up to the twin's first answer."""
    server = Server(bench.place(), "--limit", "memory=4G", "--limit", "pool=0")
    if "fork" in server.actions("session"):
        handle = server.open()
        server.tool("run_code", session=handle, code=FRAME, wait_s=50)
        took = []
        for i in range(6):
            began = time.perf_counter()
            server.tool("session", session=handle, action="fork", name=f"twin{i}")
            server.tool("run_code", session=handle, kernel=f"twin{i}", code="len(df)")
            took.append((time.perf_counter() - began) * 1e3)
        yield Row("live fork of a kernel with a 1 GB frame", "ms", took, bar=30)
    server.close()
    server.place.close()
