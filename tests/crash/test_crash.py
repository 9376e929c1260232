"""The broker is killed with SIGKILL at every numbered step of a client's day; the client must not notice.

A broker is started with steps.so (steps.c) loaded, which counts its writes to log and store and what it
sends and receives, and ends it at one of them; the front then starts another. Each run is compared with one
that nobody disturbed: answers, audit log, and nothing left behind.

  SCB_CRASH=NAME[,NAME…]  scenarios (scenarios.py); all
  SCB_CRASH_EVERY=N       only every N-th step; 1; 0: none
  SCB_CRASH_CHANCE=N      so many runs in which a broker is killed at a random moment, and its successor too
"""
import concurrent.futures
import os
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
import scenarios  # noqa: E402
import tap  # noqa: E402

STEPS = os.path.join(harness.BUILD, "tests", "crash", "steps.so")
EVERY = int(os.environ.get("SCB_CRASH_EVERY", "1"))
CHANCE = int(os.environ.get("SCB_CRASH_CHANCE", "0"))
WORKERS = int(os.environ.get("SCB_CRASH_WORKERS", "3"))
SAMPLE = 60
WANTED = [n for n in os.environ.get("SCB_CRASH", "").split(",") if n] or list(scenarios.SCENARIOS)


class Day:
    """One run of a scenario in a place of its own."""

    def __init__(self, name, kill=0, by_byte=False, chance=None):
        self.name, self.kill, self.by_byte, self.chance = name, kill, by_byte, chance
        self.place = harness.Place()
        self.log = os.path.join(self.place.home, "steps.log")
        self.kills = 0
        self.n_steps = None  # up to the client's end
        self.answers, self.audit = None, None

    def start_broker(self):
        """As src/cli/start.c does: with the lock as descriptor 3 and a place for its readiness as 4."""
        library = shutil.copy2(STEPS, self.place.folder("home", "lib"))
        os.chmod(library, 0o755)
        state = self.place.folder("home", "state", "scb")
        steps = [f"LD_PRELOAD={library}", f"STEPS_LOG={self.log}", f"STEPS_KILL={self.kill}"]
        script = 'exec 3<>"$1/lock" 4>"$1/ready"; flock -n 3 || exit 9; shift; exec "$@"'
        argv = self.place.command("broker", "--state", state, "--limit", "pool=0")
        at = len(self.place.prefix)
        self.broker = subprocess.Popen(
            argv[:at] + ["bash", "-c", script, "bash", state, "env"] + steps + ["STEPS_BYTE=1"] * self.by_byte
            + argv[at:], env=self.place.environment(), cwd=self.place.home, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        # It may be killed before it is ready: the front then starts the first that lives.
        harness.until(lambda: self.place.broker() == self.broker.pid or self.broker.poll() is not None, 10)

    def disturb(self):
        """Kills brokers at random moments while the scenario runs."""
        source = random.Random(self.chance)
        while not self.over:
            time.sleep(source.uniform(0.002, 0.4))
            pid = self.place.broker()
            if pid and not self.over:
                os.kill(pid, signal.SIGKILL)
                self.kills += 1
                if self.kills == 3:
                    return

    def play(self):
        self.over = False
        self.start_broker()
        client = self.place.serve()
        pool = concurrent.futures.ThreadPoolExecutor(1)
        try:
            client.initialize(timeout=60)
            run = scenarios.Run(client, self.place.top)
            if self.chance is not None:
                pool.submit(self.disturb)
            for step in scenarios.SCENARIOS[self.name]:
                step(run)
            self.answers = run.transcript
            self.over = True
            self.n_steps = len(self.steps())
            client.close()
            if client.faults:
                raise AssertionError(f"no protocol: {client.faults[:3]}")
            self.audit = scenarios.normal_audit(self.place.audit(), self.place.top)
            verified = self.place.scb("audit", "verify")
            if verified.returncode != 0:
                raise AssertionError(f"audit verify: {verified.stdout}{verified.stderr}")
        finally:
            self.over = True
            pool.shutdown()
            if client.alive():
                client.kill()
            self.end()
        if self.kill and self.broker.returncode != -signal.SIGKILL:
            raise AssertionError(f"step {self.kill} was never reached")
        return self

    def end(self):
        self.place.end()
        if self.broker.poll() is None:
            self.broker.terminate()
        self.broker.wait(15)
        # What a broker that was killed leaves is names; the next scb of any kind removes them.
        if self.place.leftovers():
            self.place.scb("sessions", "list")
            self.place.end()
        if not harness.until(lambda: not self.place.leftovers(), 20):
            raise AssertionError(f"left behind: {self.place.leftovers()}")

    def steps(self):
        with open(self.log, encoding="utf-8") as f:
            return [line.split(" ", 1)[1].strip() for line in f][:self.n_steps]

    def remove(self):
        shutil.rmtree(self.place.top, True)


def difference(want, got):
    for a, b in zip(want + ["(end)"] * len(got), got + ["(end)"] * len(want)):
        if a != b:
            return f"undisturbed: {a[:1500]}\n     killed: {b[:1500]}"
    return None


def compare(calm, day):
    for what in ("answers", "audit"):
        text = difference(getattr(calm, what), getattr(day, what))
        if text:
            return f"{what} differ:\n{text}"
    return None


def attempt(calm, **how):
    """The fault of one run, or None."""
    day = None
    try:
        day = Day(calm.name, **how)
        day.play()
        fault = compare(calm, day)
    except Exception as e:  # what a test must say is what it met
        fault = f"{type(e).__name__}: {e}"
    if fault and os.environ.get("SCB_CRASH_KEEP"):
        fault += f"\nkept: {day.place.top}"
    elif day:
        day.remove()
    return fault


def at_steps(calm, by_byte):
    """Every step; one byte at a time these are the same ones, each many times over: a sample of them."""
    steps = calm.steps()
    numbers = range(1, len(steps) + 1, EVERY)
    if by_byte and len(numbers) > SAMPLE // EVERY:
        numbers = sorted(random.Random(1).sample(numbers, max(1, SAMPLE // EVERY)))
    faults = []
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for n, fault in zip(numbers, pool.map(lambda n: attempt(calm, kill=n, by_byte=by_byte), numbers)):
            if fault:
                faults.append(f"killed at step {n} ({steps[n - 1]}): {fault}")
                print(f"# {calm.name}: {faults[-1]}".replace("\n", "\n# "), flush=True)
    return len(numbers), len(steps), faults


def by_chance(calm, runs):
    seeds = [random.randrange(1 << 30) for _ in range(runs)]
    faults = []
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for seed, fault in zip(seeds, pool.map(lambda s: attempt(calm, chance=s), seeds)):
            if fault:
                faults.append(f"seed {seed}: {fault}")
                print(f"# {calm.name}: {faults[-1]}".replace("\n", "\n# "), flush=True)
    return faults


def main():
    harness._become()
    results = []
    for name in WANTED:
        for by_byte in (False, True) if EVERY else ():
            calm = Day(name, by_byte=by_byte).play()
            kind = ", one byte at a time" if by_byte else ""
            runs, steps, faults = at_steps(calm, by_byte)
            results.append((f"{name}{kind}: killed at {runs} of {steps} steps", faults))
            calm.remove()
        if CHANCE:
            calm = Day(name).play()
            runs = max(1, CHANCE // len(WANTED))
            results.append((f"{name}: killed by chance in {runs} runs", by_chance(calm, runs)))
            calm.remove()
    print(f"1..{len(results)}")
    for i, (text, faults) in enumerate(results, 1):
        print(f"{'not ' if faults else ''}ok {i} - {text}" + (f", {len(faults)} faults" if faults else ""))
        for fault in faults[:5]:
            print("# " + fault.replace("\n", "\n# "))
    sys.exit(1 if any(f for _, f in results) else 0)


if __name__ == "__main__":
    main()
