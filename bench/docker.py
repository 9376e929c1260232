"""docker.py: sandboxes of a container engine, beside what Docker's own client does with the same image.

Skipped where no engine answers, or has no image with pandas: DOCKER_HOST and BROKER_IMAGE say which
(tests/engines/dockerd starts one: `tests/engines/dockerd make bench BENCH=docker`).
"""
import os
import subprocess
import time

from report import Row
from scb import Server
from start import PANDAS

IMAGE = os.environ.get("BROKER_IMAGE", "mcp-sandbox:latest")
ROUNDS = 5


def _docker(*arguments):
    began = time.perf_counter()
    subprocess.run(["docker", *arguments], check=True, capture_output=True, timeout=120)
    return (time.perf_counter() - began) * 1e3


def _run(*code):
    return _docker("run", "--rm", "--network=none", IMAGE, *code)


def _missing():
    try:
        _run("python3", "-c", "import pandas")
    except (OSError, subprocess.SubprocessError) as e:
        return str(getattr(e, "stderr", None) or e)[:100]
    return ""


def _first(server, code):
    """How long a new session's first result took, in ms."""
    began = time.perf_counter()
    handle = server.open()
    server.tool("run_code", session=handle, code=code)
    took = (time.perf_counter() - began) * 1e3
    server.close_session(handle)
    return took


def _ready(server):
    """The sandbox that is kept ready has been made, and warmed up."""
    def idle():
        stats = subprocess.run(["docker", "ps", "-q"], check=True, capture_output=True, text=True, timeout=30)
        return len(stats.stdout.split()) == 1
    end = time.monotonic() + 60
    while not idle() and time.monotonic() < end:
        time.sleep(0.2)
    time.sleep(4)


def docker(bench):
    missing = _missing()
    if missing:
        print(f"docker: left out, there is no engine with {IMAGE} and pandas in it ({missing})")
        return
    more = {name: os.environ[name] for name in os.environ if name.startswith(("DOCKER_", "BROKER_"))}
    more["BROKER_PROVIDER"] = "docker"
    plain_server = Server(bench.place(), "--limit", "pool=0", **more)
    plain, cold = [], []
    for _ in range(ROUNDS):
        plain.append(_first(plain_server, PANDAS))
        cold.append(_run("python3", "-c", PANDAS))
    plain_server.close()
    plain_server.place.close()

    server = Server(bench.place(), **more)
    pooled = []
    _first(server, "1")  # from now on one is kept ready
    for _ in range(ROUNDS):
        _ready(server)
        pooled.append(_first(server, PANDAS))
        cold.append(_run("python3", "-c", PANDAS))
    yield Row("docker: new session to first pandas, pooled", "ms", pooled, cold, ratio=1 / 20,
              note="the peer: docker run python3 -c")
    yield Row("  … not pooled", "ms", plain, cold)

    handle = server.open()
    server.tool("run_code", session=handle, code="1+1")
    name = subprocess.run(["docker", "run", "-d", "--rm", "--network=none", IMAGE, "sleep", "600"], check=True,
                          capture_output=True, text=True, timeout=60).stdout.strip()
    warm, executed = [], []
    try:
        for _ in range(10):
            warm += [server.time_tool("run_code", session=handle, code="1+1").net * 1e3 for _ in range(50)]
            executed += [_docker("exec", name, "python3", "-c", "1+1") for _ in range(3)]
    finally:
        _docker("rm", "-f", name)
    yield Row("docker: run_code 1+1", "ms", warm, executed, ratio=1 / 50, note="the peer: docker exec python3 -c")
    server.close()
    server.place.close()
