#!/usr/bin/python3
"""leftovers.py: sandboxes of a container engine that come and go, one after the other and many at once: nothing of them is
left, neither with the engine nor with the broker. SCB_CYCLES (20) and SCB_PARALLEL (10) say how many.

Part of test_requests.py; by itself, in tests/engines/dockerd, what `make soak SOAK=docker` runs.
"""
import json
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
os.environ["SCB_PROVIDER"] = "docker"
from harness import SLOW, Place, until  # noqa: E402

CYCLES = int(os.environ.get("SCB_CYCLES", "20"))
PARALLEL = int(os.environ.get("SCB_PARALLEL", "10"))
HOST = os.environ.get("DOCKER_HOST", "")


def containers():
    out = subprocess.run(["docker", "ps", "-aq", "--no-trunc"], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def processes(file, word):
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/{file}", "rb") as f:
                if entry.isdigit() and word.encode() in f.read():
                    found.append(int(entry))
        except OSError:
            pass
    return found


class Traces:
    """What there is of an engine's containers, and of one broker."""

    def __init__(self, place, broker):
        ids = containers()
        where = os.path.dirname(HOST[len("unix://"):])
        with open("/proc/self/mountinfo") as f:
            mounts = sum(1 for line in f if where + "/" in line)
        group = os.path.basename(where)  # of this engine alone (tests/engines/dockerd)
        groups = [d for top, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs if top.endswith("/" + group)]
        names = sum(len(names) for top, _, names in os.walk(place.run) if "broker" not in names or len(names) > 1)
        self.counts = {"containers": len(ids), "shims": len(processes("cmdline", f"{where}/exec/containerd/")), "mounts": mounts,
                       "groups": len(groups), "processes": len(processes("cgroup", f"/{group}/")), "names": names,
                       "descriptors": len(os.listdir(f"/proc/{broker}/fd"))}

    def __eq__(self, other):
        return self.counts == other.counts

    def __str__(self):
        return json.dumps(self.counts)


def run(ok):
    place = Place()
    client = place.serve("--limit", "pool=0", "--limit", f"sessions={PARALLEL + 8}", "--limit",
                         f"sessions_principal={PARALLEL + 8}", BROKER_PROVIDER="docker", **{
                             k: v for k, v in os.environ.items() if k.startswith(("DOCKER_", "BROKER_"))})
    client.initialize(timeout=30)
    broker = place.broker()
    faults = []

    def one(i):
        try:
            handle = client.tool("session", action="open", timeout=300).session
            r = client.tool("run_command", session=handle, command=f"echo {i}", wait_s=50, timeout=300)
            if r.exitCode != 0 or r.stdout != f"{i}\n":
                faults.append(f"{i}: {r}")
            closed = client.tool("session", action="close", session=handle, timeout=300)
            if closed.is_error:
                faults.append(f"{i}: {closed}")
        except Exception as e:  # noqa: BLE001: a thread's fault is the test's
            faults.append(f"{i}: {e!r}"[:2000])

    def same(before):
        now = [Traces(place, broker)]

        def look():
            now[0] = Traces(place, broker)
            return now[0] == before

        return until(look, 60, 0.5), f"before {before}\nafter  {now[0]}"

    one("first")  # what is made once, at first need, is no trace
    until(lambda: not containers(), 30, 0.5)
    time.sleep(2)
    before = Traces(place, broker)
    began = time.monotonic()
    for i in range(CYCLES):
        one(i)
    took = time.monotonic() - began
    print(f"# {CYCLES} one after the other: {took:.1f} s, {1000 * took / CYCLES:.0f} ms each")
    ok(not faults, f"{CYCLES} sandboxes, one after the other", "\n".join(faults[:5]))
    good, text = same(before)
    ok(good, "nothing of them is left", text)
    print(f"# {text}".replace("\n", "\n# "))

    faults.clear()
    began = time.monotonic()
    threads = [threading.Thread(target=one, args=(i,)) for i in range(PARALLEL)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(600 * SLOW)
    print(f"# {PARALLEL} at once: {time.monotonic() - began:.1f} s")
    ok(not faults, f"{PARALLEL} sandboxes at once", "\n".join(faults[:5]))
    good, text = same(before)
    ok(good, "nothing of them is left", text)
    print(f"# {text}".replace("\n", "\n# "))
    client.close()
    place.end()
    ok(until(lambda: not place.leftovers(), 10), "nor of the broker", "\n".join(place.leftovers()))


def main():
    n = [0, 0]

    def ok(good, name, detail=""):
        n[0] += 1
        n[1] += not good
        print(f"{'ok' if good else 'not ok'} {n[0]} - {name}", flush=True)
        if not good:
            print("\n".join("# " + line for line in detail.splitlines()), flush=True)

    run(ok)
    print(f"1..{n[0]}")
    sys.exit(1 if n[1] else 0)


if __name__ == "__main__":
    main()
