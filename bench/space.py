"""space.py: memory and sizes."""
import glob
import os
import subprocess
import time

from report import Row
from scb import Server, memory
from start import empty_pool, wait_for_pool

SESSIONS = int(os.environ.get("BENCH_SESSIONS", "200"))
GIB = float(os.environ.get("BENCH_GIB", "10"))


def idle(bench):
    place = bench.place()
    server = Server(place)
    rss, pss, private = memory(place.brokers()[0])
    server.close()
    place.close()
    yield Row("broker, idle: resident", "MiB", rss, bar=10)
    yield Row("  … proportional (PSS)", "MiB", pss)
    yield Row("  … private", "MiB", private)


def sessions(bench):
    """Each with a live sandbox, in which one command has run."""
    place = bench.place()
    server = Server(place, "--limit", f"sessions={SESSIONS}", "--limit", f"sessions_principal={SESSIONS}",
                    SCB_UID_RANGE="70000-" + str(70000 + SESSIONS + 8))
    for _ in range(SESSIONS):
        server.tool("run_command", session=server.open(), command="true")
    rss, _, private = memory(place.brokers()[0])
    server.close()
    place.close()
    yield Row(f"broker with {SESSIONS} sessions: resident", "MiB", rss, bar=24)
    yield Row("  … private", "MiB", private)


def _kernel_memory(server, code):
    """Private MiB of a new session's kernel that has run code. It is found by a file that it holds
    open, since inside it has another pid."""
    name = f"bench-{os.getpid()}-{time.monotonic_ns()}"
    handle = server.open()
    server.tool("run_code", session=handle,
                code=f"{code}\nimport os; held = os.memfd_create('{name}')")
    private = memory(_holder(f"/memfd:{name} (deleted)"))[2]
    server.close_session(handle)
    return private


def _holder(name):
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(path) == name:
                return int(path.split("/")[2])
        except OSError:
            pass
    raise SystemExit("bench: the kernel is not to be seen from here; run this as root")


def kernels(bench):
    plain_server = Server(bench.place(), "--limit", "pool=0")
    ready_server = Server(bench.place())
    _kernel_memory(ready_server, "1")
    for title, code in (("", "1"), (" with pandas", "import pandas")):
        plain = _kernel_memory(plain_server, code)
        wait_for_pool(ready_server, 0)
        pooled = _kernel_memory(ready_server, code)
        other = empty_pool(ready_server)
        forked = _kernel_memory(ready_server, code)
        ready_server.close_session(other)
        theirs = None
        if bench.has_peer:
            peer = bench.new_jupyter()
            peer.run(code)
            theirs = memory(peer.pid)[2]
            peer.close()
        yield Row(f"live kernel{title}, forked: private", "MiB", forked, theirs,
                  bar=8 if title else None)
        yield Row("  … kept ready and warmed up", "MiB", pooled, theirs)
        yield Row("  … started plainly (pool=0)", "MiB", plain, theirs)
    for server in (plain_server, ready_server):
        server.close()
        server.place.close()


def output(bench):
    """One job that prints much; the peer prints less, and its time is scaled."""
    server = bench.server()
    broker = server.place.brokers()[0]
    server.tool("run_command", command="yes | head -c 100000000")
    before = memory(broker)[2]
    began = time.perf_counter()
    status = server.tool("run_command", command=f"yes 0123456789abcdef | head -c {int(GIB * 2**30)}",
                         timeout_s=600, wait_s=50)
    while status["status"] != "done":
        status = server.tool("job", action="wait", session=status["session"], job=status["job"], wait_s=50)
    ours = time.perf_counter() - began
    moved = memory(broker)[2] - before
    theirs = None
    if bench.has_peer:
        peer = bench.jupyter()
        code = "import sys\nfor _ in range(512): sys.stdout.write(('0123456789abcde\\n' * 4096))"
        began = time.perf_counter()
        printed = peer.run(code)
        theirs = (time.perf_counter() - began) * 2**30 / max(printed, 1)
    yield Row(f"a job prints {GIB:g} GiB: a GiB takes", "s", ours / GIB, theirs)
    yield Row("  … and moves the broker's private memory by", "MiB", moved, bar=2)


def size(bench):
    place = bench.place()
    for name, bar in (("scb", 1536), ("scb-agent", 150)):
        stripped = os.path.join(place.top, name)
        subprocess.run(["strip", "-o", stripped, os.path.join(place.build, name)], check=True)
        yield Row(f"size of {name}, stripped", "KiB", os.path.getsize(stripped) / 1024, bar=bar)
    place.close()
