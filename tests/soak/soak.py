#!/usr/bin/python3
"""soak.py [mix|cycles|output|sessions|steps|chance|dashboards|docker]: what only shows after a while or in numbers: memory,
descriptors, what is left.

  mix     calls of every kind on several sessions at once, for SOAK_MINUTES (2); SOAK_SEED repeats one, of dashboards too
  cycles  SOAK_CYCLES (1,000) sandboxes made and destroyed, every tenth with a kernel
  output  one job that prints SOAK_GIB (10)
  sessions  SOAK_SESSIONS (1,000) live at once, each with a kernel that has pandas loaded; as root
  steps   brokers killed at every step of a client's day, for each provider, as root and as a user (docker: as root);
          SOAK_ON=docker-root[,PROVIDER-MODE…]: on these alone
  chance  brokers killed at random moments of it, SOAK_CHANCE (300) times
  dashboards  SOAK_PROGRAMS (10,000) random scripts, each through some events beside whole runs in forks
  docker  sandboxes of a container engine, SCB_CYCLES (200) one after the other, SCB_PARALLEL (50) at once; as root
          (BROKER_RUNTIME=runsc: with gVisor)

Exit status 0 where all held. Run by `make soak`.
"""
import collections
import concurrent.futures
import glob
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
from harness import Place, descendants, until  # noqa: E402
from mcpclient import memory  # noqa: E402

MIB = 1 << 20
SESSIONS = 5
# What a broker's heap may gain over many calls of every kind; what leaks does not stop there.
GROWTH = 3 * MIB

faults = []


def fault(text):
    faults.append(text)
    print(f"FAULT: {text}", flush=True)


def broker_of(place):
    """The process that holds the place's audit log open."""
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(path).startswith(place.state + "/") and path.split("/")[3] == "fd":
                return int(path.split("/")[2])
        except OSError:
            pass
    raise SystemExit("soak: no process holds the audit log open")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


class Site:
    """A broker and what it was like before anything was asked of it."""

    def __init__(self, *arguments, **env):
        self.place = Place()
        self.client = self.place.serve(*arguments, **env)
        self.client.initialize()
        self.broker = broker_of(self.place)
        self._sending = threading.Lock()
        handle = self.open()  # what is made once, at first need, is no leak
        self.tool("run_code", session=handle, code="1")
        self.close(handle)
        self.descriptors = self.settled()
        self.memory = memory(self.broker)

    def settled(self):
        """How many descriptors the broker has once nothing comes or goes any more: a session that was
        closed is gone, the one that is kept ready is there."""
        seen, since, end = -1, 0, time.monotonic() + 30
        while time.monotonic() < end and time.monotonic() - since < 2:
            now = descriptors(self.broker)
            if now != seen:
                seen, since = now, time.monotonic()
            time.sleep(0.05)
        return seen

    def start(self, name, **arguments):
        with self._sending:
            return self.client.start(name, **arguments)

    def tool(self, name, timeout=120, **arguments):
        return self.client.finish(self.start(name, **arguments), timeout)

    def cancel(self, call):
        with self._sending:
            self.client.notify("notifications/cancelled", {"requestId": call.id})

    def open(self):
        r = self.tool("session", action="open")
        if r.is_error:
            raise RuntimeError(r.text)
        return r.session

    def close(self, handle):
        r = self.tool("session", action="close", session=handle)
        if r.is_error:
            fault(f"close: {r.text}")

    def check(self, growth=GROWTH):
        """With every session closed: is all as it was?"""
        now = self.settled()
        if now > self.descriptors:
            fault(f"{now} descriptors are open, {self.descriptors} were")
        grown = memory(self.broker) - self.memory
        print(f"broker: {self.memory / MIB:.2f} MiB of its own before, {grown / MIB:+.2f} MiB now", flush=True)
        if grown > growth:
            fault(f"its memory has grown by {grown / MIB:.1f} MiB")

    def end(self):
        below = descendants(self.broker)
        self.client.close(60)
        for text in self.client.faults[:5]:
            fault(f"no protocol: {text}")
        if not until(lambda: not self.place.leftovers(below), 15):
            for text in self.place.leftovers(below):
                fault(f"left: {text}")
        begun, ended = collections.Counter(), collections.Counter()
        for event in self.place.audit():
            kind, _, what = event["event"].partition(".")
            if kind in ("tool", "exec"):
                (ended if what == "end" else begun)[kind] += 1
        if begun != ended:
            fault(f"the audit log has {dict(begun)} beginnings and {dict(ended)} ends")
        print(f"audit: {sum(begun.values())} events begun and ended", flush=True)


# ---- the mix: each is given a site, a session and a source of chance, and says what is wrong ----

def cell(site, s, rng):
    n = rng.randrange(10 ** 9)
    r = site.tool("run_code", session=s, code=f"x = {n}\nx * 2")
    shown = (r.results or [{}])[0].get("mime", {}).get("text/plain")
    return shown == str(2 * n) or f"{n} * 2 = {shown}"


def state(site, s, rng):
    r = site.tool("run_code", session=s, code="seen = globals().get('seen', 0) + 1; seen")
    return r.status == "done" or r


def error(site, s, rng):
    r = site.tool("run_code", session=s, code="def f(n):\n    return f(n - 1) if n else 1 / 0\nf(50)")
    return (r.error or {}).get("name") == "ZeroDivisionError" or r


def pandas(site, s, rng):
    r = site.tool("run_code", session=s, code=f"import pandas as pd; pd.DataFrame({{'a': range({rng.randrange(1, 5000)})}})")
    return r.status in ("done", "running") or r


def prints(site, s, rng):
    n = rng.choice((10, 1000, 200_000))
    r = site.tool("run_code", session=s, code=f"for i in range({n}): print('line', i)", wait_s=50)
    return "line 0" in (r.stdout or "") or r


def command(site, s, rng):
    code = rng.randrange(256)
    r = site.tool("run_command", session=s, command=f"echo out; echo err >&2; exit {code}")
    return (r.stdout, r.stderr, r.exitCode) == ("out\n", "err\n", code) or r


def flood(site, s, rng):
    n = rng.randrange(1, 40) * MIB
    r = site.tool("run_command", session=s, command=f"yes | head -c {n}", wait_s=50)
    return r.status == "done" or r


def timeout(site, s, rng):
    r = site.tool("run_command", session=s, command="sleep 60 & exec sleep 60", timeout_s=0.3)
    return r.reason == "timeout" or r


def cell_timeout(site, s, rng):
    r = site.tool("run_code", session=s, code="import time\ntime.sleep(60)", timeout_s=0.3)
    return r.reason in ("timeout", "interpreter_died") or r


def cancelled(site, s, rng):
    call = site.start("run_command", session=s, command="sleep 61")
    time.sleep(rng.random() / 5)
    site.cancel(call)
    return True


def background(site, s, rng):
    r = site.tool("run_command", session=s, command="sleep 62 >/dev/null 2>&1 & echo $!; sleep 0.05; kill %1")
    return r.status == "done" or r


def later(site, s, rng):
    r = site.tool("run_command", session=s, command="sleep 0.2; echo late", wait_s=0)
    r = site.tool("job", action="wait", session=s, job=r.job, wait_s=50)
    return r.stdout == "late\n" or r


def dies(site, s, rng):
    r = site.tool("run_code", session=s, code="import os; os._exit(7)")
    return r.reason == "interpreter_died" or r


def restart(site, s, rng):
    r = site.tool("session", action=rng.choice(("restart", "info", "interrupt")), session=s)
    return "session" in str(r) or r


def files(site, s, rng):
    text, name = "é" * rng.randrange(1, 20000), f"f{rng.randrange(5)}.txt"
    site.tool("files", action="write", session=s, path=name, content=text)
    r = site.tool("files", action="stat", session=s, path=name)
    site.tool("files", action="delete", session=s, path=name)
    return r.bytes == len(text.encode()) or r


def present(site, s, rng):
    site.tool("files", action="write", session=s, path="out.csv", content="a,b\n1,2\n")
    r = site.tool("present_output", session=s, path="out.csv")
    return (r.uri or "").startswith("resource://") or r


def refused(site, s, rng):
    r = site.tool("run_code", session=s, code="1", nonsense=True)
    return r.is_error or r


MIX = [(cell, 30), (state, 10), (error, 8), (pandas, 2), (prints, 4), (command, 12), (flood, 2), (timeout, 3),
       (cell_timeout, 2), (cancelled, 4), (background, 4), (later, 4), (dies, 1), (restart, 2), (files, 8),
       (present, 4), (refused, 4)]


def worker(site, seed, until_time, counts):
    rng = random.Random(seed)
    kinds = [kind for kind, weight in MIX for _ in range(weight)]
    handle = site.open()
    while time.monotonic() < until_time and len(faults) < 10:
        if rng.random() < 0.02:
            site.close(handle)
            handle = site.open()
        kind = rng.choice(kinds)
        try:
            r = kind(site, handle, rng)
        except Exception as e:
            r = repr(e)
        if r is not True:
            fault(f"{kind.__name__}: {str(r)[:600]}")
        counts[kind.__name__] += 1
    site.close(handle)


def mix():
    seed = int(os.environ.get("SOAK_SEED", random.randrange(10 ** 6)))
    minutes = float(os.environ.get("SOAK_MINUTES", "2"))
    print(f"soak: {minutes:g} minutes, {SESSIONS} sessions, SOAK_SEED={seed}", flush=True)
    site = Site()
    counts = collections.Counter()
    end = time.monotonic() + 60 * minutes
    threads = [threading.Thread(target=worker, args=(site, seed + i, end, counts)) for i in range(SESSIONS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print("soak: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())), flush=True)
    site.check()
    site.end()


def cycles():
    n = int(os.environ.get("SOAK_CYCLES", "1000"))
    site = Site()
    began = time.monotonic()
    for i in range(n):
        handle = site.open()
        if i % 10 == 0:
            site.tool("run_code", session=handle, code="1")
        site.close(handle)
    took = time.monotonic() - began
    print(f"soak: {n} sandboxes made and destroyed, {1000 * took / n:.1f} ms each", flush=True)
    site.check(MIB)
    site.end()


def output():
    gib = float(os.environ.get("SOAK_GIB", "10"))
    site = Site()
    handle = site.open()
    r = site.tool("run_command", session=handle, command=f"yes 0123456789abcdef | head -c {int(gib * 2**30)}",
                  timeout_s=1200, wait_s=0)
    highest = 0
    while r.status != "done":
        highest = max(highest, memory(site.broker))
        r = site.tool("job", action="wait", session=handle, job=r.job, wait_s=1)
    print(f"soak: a job printed {gib:g} GiB in {r.durationMs / 1000:.1f} s; the broker had at most "
          f"{highest / MIB:.2f} MiB of its own", flush=True)
    if highest - site.memory > 2 * MIB:
        fault(f"the broker grew by {(highest - site.memory) / MIB:.1f} MiB")
    if r.exitCode != 0:
        fault(str(r))
    site.close(handle)
    site.check(MIB)
    site.end()


# ---- many sessions ----

# design: 1,000 live sessions in 8 GiB, the broker with them in 24 MiB.
PER_SESSION = 8 * 1024 * MIB / 1000
BROKER = 24 * MIB
SHARED_BY = 200  # what all have in common is not to be seen in the share of fewer
FIRST_UID = 70000


def lines_of(path, names):
    """The sum of these lines of a file of /proc, in bytes."""
    try:
        with open(path) as f:
            return sum(int(line.split()[1]) * 1024 for line in f if line.split(":")[0] in names)
    except OSError:  # it has ended
        return 0


def memory_of(uids):
    """What the processes of these uids have: their part of what is shared, and page tables."""
    parts = collections.Counter()
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.stat("/proc/" + entry).st_uid in uids:
                parts["processes"] += 1
                parts["memory"] += lines_of(f"/proc/{entry}/smaps_rollup", ("Pss",))
                parts["page tables"] += lines_of(f"/proc/{entry}/status", ("VmPTE",))
        except OSError:
            pass
    return parts


def wait_for_template(site):
    """Until kernels are forked from one that has loaded pandas: those before share nothing."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        handle = site.open()
        r = site.tool("run_code", session=handle, code="import sys; 'pandas' in sys.modules")
        site.close(handle)
        if (r.results or [{}])[0].get("mime", {}).get("text/plain") == "True":
            return
        time.sleep(0.5)
    fault("no kernel was forked from a template within two minutes")


def sessions():
    if os.geteuid() != 0:
        raise SystemExit("soak: a thousand sandboxes need as many uids: run this as root")
    n = int(os.environ.get("SOAK_SESSIONS", "1000"))
    uids = range(FIRST_UID, FIRST_UID + n + 8)
    site = Site("--limit", "pool=1", "--limit", f"sessions={n}", "--limit", f"sessions_principal={n}",
                "--limit", "idle_ttl_s=86000", SCB_UID_RANGE=f"{uids[0]}-{uids[-1]}")
    wait_for_template(site)
    available = lines_of("/proc/meminfo", ("MemAvailable",))
    began = time.monotonic()
    handles = []
    for i in range(n):
        handles.append(site.open())
        r = site.tool("run_code", session=handles[-1], code=f"import pandas as pd; x = {i}; int(pd.Series([x]).sum())")
        if r.status != "done" or r.exitCode != 0:
            fault(f"session {i}: {r}")
    took = time.monotonic() - began
    available -= lines_of("/proc/meminfo", ("MemAvailable",))
    parts = memory_of(uids)
    used = parts["memory"] + parts["page tables"]
    resident = lines_of(f"/proc/{site.broker}/status", ("VmRSS",))
    print(f"soak: {n} live sessions, each opened and its first pandas result given in {1000 * took / n:.1f} ms\n"
          f"{parts['processes']} processes with {parts['memory'] / MIB:.0f} MiB and {parts['page tables'] / MIB:.0f} MiB "
          f"of page tables, {used / n / MIB:.2f} MiB a session; the machine has {available / MIB:.0f} MiB less\n"
          f"the broker is resident with {resident / MIB:.1f} MiB", flush=True)
    if n >= SHARED_BY and used > n * PER_SESSION:
        fault(f"more than {PER_SESSION / MIB:.2f} MiB a session")
    if resident > BROKER:
        fault(f"the broker has more than {BROKER // MIB} MiB")
    for i, handle in enumerate(handles):
        r = site.tool("run_code", session=handle, code="x")
        if (r.results or [{}])[0].get("mime", {}).get("text/plain") != str(i):
            fault(f"session {i} does not know its x: {r}")
    for handle in handles:
        site.close(handle)
    site.check(BROKER)
    site.end()


# ---- killed brokers: tests/crash ----

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def crash(variants, **env):
    program = [sys.executable, os.path.join(TESTS, "crash", "test_crash.py")]
    for provider, mode in variants:
        print(f"# {provider}-{mode}", flush=True)
        engine = [os.path.join(TESTS, "engines", "dockerd")] if provider == "docker" else []
        # Of an engine that knows gVisor's runtime, too, as tests/engines/dockerd starts it.
        done = subprocess.run(engine + program, env={"BROKER_RUNTIME": "runc", **os.environ, "SCB_PROVIDER": provider,
                                                     "SCB_MODE": mode, **env})
        if done.returncode != 0:
            fault(f"tests/crash, {provider}-{mode}")


def steps():
    variants = [(provider, mode) for provider in ("bubblewrap", "local") for mode in ("root", "user")] + [("docker", "root")]
    wanted = [on for on in os.environ.get("SOAK_ON", "").split(",") if on]
    unknown = set(wanted) - {"-".join(v) for v in variants}
    if unknown:
        raise SystemExit(f"soak: SOAK_ON: there are {', '.join('-'.join(v) for v in variants)}")
    crash([v for v in variants if not wanted or "-".join(v) in wanted])


def chance():
    crash([("bubblewrap", "root" if os.geteuid() == 0 else "user")], SCB_CRASH_EVERY="0",
          SCB_CRASH_CHANCE=os.environ.get("SOAK_CHANCE", "300"))


# ---- dashboards: tests/dashboard/fuzz.py ----

def dashboards():
    """A process for every 500 programs: what each leaves behind adds up."""
    program = os.path.join(TESTS, "dashboard", "fuzz.py")
    last = int(os.environ.get("SOAK_PROGRAMS", "10000"))
    first = int(os.environ.get("SOAK_SEED", "1000001"))

    def run(at):
        return subprocess.run(["/usr/bin/python3", "-W", "ignore", program, str(min(500, last - at)), str(first + at)]).returncode

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        if any(pool.map(run, range(0, last, 500))):
            fault("tests/dashboard/fuzz.py")


# ---- a container engine: tests/engines ----

def docker():
    here = os.path.join(TESTS, "engines")
    done = subprocess.run([here + "/dockerd", sys.executable, here + "/leftovers.py"],
                          env={"SCB_CYCLES": "200", "SCB_PARALLEL": "50", "BROKER_RUNTIME": "runc", **os.environ})
    if done.returncode != 0:
        fault(f"tests/engines: exit status {done.returncode}")


def main():
    kinds = {"mix": mix, "dashboards": dashboards, "cycles": cycles, "output": output, "sessions": sessions, "steps": steps,
             "chance": chance, "docker": docker}
    wanted = sys.argv[1] if len(sys.argv) > 1 else "mix"
    if wanted not in kinds:
        raise SystemExit(f"soak: there are {', '.join(kinds)}")
    kinds[wanted]()
    print("soak: all held" if not faults else f"soak: {len(faults)} faults", flush=True)
    sys.exit(1 if faults else 0)


main()
