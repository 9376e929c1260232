"""harness.py: where and as whom the broker runs in a test, and what it must not leave behind.

Told by the environment (tests/e2e/meson.build):
  SCB_BUILD     the build directory
  SCB_PROVIDER  bubblewrap | local | docker (then DOCKER_HOST, BROKER_IMAGE and BROKER_RUNTIME, from
                tests/engines/dockerd: an engine that nobody else uses)
  SCB_MODE      root: the broker is root          user: it is an ordinary user
  SCB_MANAGER   the folder of a systemd that gives brokers their scope (tests/guest); else there is none
  SCB_IMAGE     a NAME.tar (sandbox-image/build): every sandbox has its system instead of the host's
  SCB_SLOW      how many times slower the machine is than most; times are allowed in proportion

A test that is started as an ordinary user runs the root mode through `sudo -n`, where that works;
one that is started as root makes itself an ordinary user with setpriv, in a folder that user may
read (a clone under /root is not).
"""
import atexit
import glob
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
import tap  # noqa: E402
from mcpclient import SLOW, Client, memory  # noqa: E402, F401

BUILD = os.path.abspath(os.environ.get("SCB_BUILD", "build"))
PROVIDER = os.environ.get("SCB_PROVIDER", "bubblewrap")
MODE = os.environ.get("SCB_MODE", "root" if os.geteuid() == 0 else "user")
MANAGER = os.environ.get("SCB_MANAGER")
IMAGE = os.environ.get("SCB_IMAGE")
SANITIZED = bool(os.environ.get("SCB_SANITIZED"))
ENGINE = {k: os.environ[k] for k in ("DOCKER_HOST", "BROKER_IMAGE", "BROKER_RUNTIME") if k in os.environ}
GVISOR = PROVIDER == "docker" and ENGINE.get("BROKER_RUNTIME") == "runsc"
CANARY = "scb-canary-7f3a9c"
VERSION = subprocess.run([os.path.join(BUILD, "scb"), "--version"], capture_output=True, text=True).stdout[4:].strip()
ELSEWHERE = ["/usr/bin/python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "elsewhere.py")]


def _become():
    """Makes this test run with the rights that its mode needs, or skips it."""
    if MODE == "root" and os.geteuid() != 0:
        if subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode != 0 \
                if shutil.which("sudo") else True:
            tap.skip_all("the root mode needs root, or sudo without a password")
        keep = [f"{k}={v}" for k, v in os.environ.items() if k.startswith(("SCB_", "PATH"))]
        os.execvp("sudo", ["sudo", "-n", "env", *keep, sys.executable, *sys.argv])
    if PROVIDER == "bubblewrap" and shutil.which("bwrap") is None:
        tap.skip_all("bubblewrap is not installed")
    if PROVIDER == "docker" and "DOCKER_HOST" not in ENGINE:
        tap.skip_all("no engine: tests/engines/dockerd gives one")
    if MODE == "user" and os.geteuid() == 0 and shutil.which("setpriv") is None:
        tap.skip_all("setpriv (util-linux) is not installed, so root cannot become an ordinary user")


def _free_uid():
    """A uid under which nothing runs, and a socket whose name keeps it for whoever has that open: other
    places, of this process and of others, look for one at the same time."""
    taken = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                taken.add(os.stat("/proc/" + entry).st_uid)
            except OSError:
                pass
    first = 30000 + os.getpid() % 10000
    for uid in range(first, first + 1000):
        try:
            pwd.getpwuid(uid)
        except KeyError:
            kept = socket.socket(socket.AF_UNIX)
            try:
                kept.bind(f"\0scb-test-uid-{uid}")
                if uid not in taken:
                    return uid, kept
            except OSError:
                pass
            kept.close()
    raise RuntimeError("no free uid")


_images = {}  # by uid: where SCB_IMAGE is unpacked, and its name


def _image(place):
    """Unpacked once for each user by `scb image import`: its environment."""
    if not IMAGE:
        return {}
    if not os.path.exists(IMAGE):
        tap.skip_all(f"there is no {IMAGE} (sandbox-image/build makes one)")
    if place.uid not in _images:
        data = tempfile.mkdtemp(prefix="scb-e2e-image-", dir="/var/tmp")
        atexit.register(shutil.rmtree, data, True)
        os.chown(data, place.uid, place.uid)
        done = subprocess.run(place.command("image", "import", IMAGE), cwd="/", capture_output=True, text=True,
                              env={"XDG_DATA_HOME": data, "HOME": data})
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        _images[place.uid] = {"XDG_DATA_HOME": data, "BROKER_IMAGE": done.stdout.split()[0]}
    return _images[place.uid]


class Place:
    """Programs, HOME and the XDG folders of one broker's user. Removed at the end."""

    def __init__(self):
        self.top = tempfile.mkdtemp(prefix="scb-e2e-")
        os.chmod(self.top, 0o755)
        self.prefix = []
        self.uid = os.geteuid()
        self.bin = BUILD
        if MODE == "user" and os.geteuid() == 0:
            self.uid, self._kept_uid = _free_uid()
            # --inh-caps: some roots have inheritable capabilities, which an ordinary user has not
            self.prefix = ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups",
                           "--inh-caps=-all"]
            self.bin = os.path.join(self.top, "bin")
            os.mkdir(self.bin)
            for name in ("scb", "scb-agent", "seccomp.json"):
                shutil.copy2(os.path.join(BUILD, name), self.bin)
            for name in ("kernels", "examples", "sandbox-image"):
                shutil.copytree(os.path.join(BUILD, name), os.path.join(self.bin, name),
                                ignore=shutil.ignore_patterns("meson*", "*.p"))
            subprocess.run(["chmod", "-R", "a+rX", self.bin], check=True)
        self.home = self.folder("home")
        self.state = self.folder("home", "state")
        self.run = self.folder("run")
        self.image = _image(self)
        if MANAGER:
            os.symlink(MANAGER, os.path.join(self.run, "systemd"))
        atexit.register(shutil.rmtree, self.top, True)
        atexit.register(self.end)  # before the folders go

    def folder(self, *names):
        path = os.path.join(self.top, *names)
        os.makedirs(path, mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.uid)
        return path

    def file(self, path, data):
        """A file that the broker's user owns."""
        with open(path, "wb") as f:
            f.write(data)
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.uid)
        return path

    def environment(self, **more):
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.home,
               "LANG": "C.UTF-8", "XDG_STATE_HOME": self.state, "XDG_RUNTIME_DIR": self.run,
               "BROKER_PROVIDER": PROVIDER, "SCB_TEST_SECRET": CANARY, **self.image}
        if PROVIDER == "docker":
            env.update(ENGINE)
        for name, value in os.environ.items():
            if name.endswith("SAN_OPTIONS"):
                env[name] = value
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def command(self, *arguments):
        return [*self.prefix, os.path.join(self.bin, "scb"), *arguments]

    def serve(self, *arguments, **env):
        """Starts `scb serve`; the client is not initialized yet. Its pid is the broker's. Nothing is
        kept ready unless the test asks for it: what there is, is counted."""
        env = self.environment(**env)
        if not any(argument.startswith("pool=") for argument in arguments):
            arguments = (*arguments, "--limit", "pool=0")
        client = Client(self.command("serve", *arguments), env, cwd=self.home)
        if "--solo" not in arguments:
            state = os.path.join(env.get("XDG_STATE_HOME", self.state), "scb")
            if "--state" in arguments:
                state = arguments[arguments.index("--state") + 1]
            client.server = lambda: self.broker(state)
        return client

    def broker(self, state=None):
        """The broker of a state directory: its pid, None where there is none."""
        try:
            with open(os.path.join(state or os.path.join(self.state, "scb"), "broker.json")) as f:
                pid = json.load(f)["pid"]
            return pid if alive(pid) else None
        except (OSError, ValueError):
            return None

    def end(self):
        """Ends every broker of this place with all its sandboxes."""
        states = [where for where, _, names in os.walk(self.top) if "broker.json" in names]  # glob follows links
        for state in states:
            pid = self.broker(state)
            if pid is None:
                continue
            os.kill(pid, signal.SIGCONT)
            done = self.scb("sessions", "close", "--all", "--state", state)
            try:
                os.kill(self.broker(state) or pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
            if done.returncode != 0 or not until(lambda: not alive(pid), 30 if PROVIDER == "docker" else 5):
                raise AssertionError(f"the broker {pid} of {state} does not end: {done}")

    def scb(self, *arguments, timeout=60, **env):
        """Runs another command to its end."""
        return subprocess.run(self.command(*arguments), env=self.environment(**env), cwd=self.home,
                              capture_output=True, text=True, timeout=timeout * SLOW)

    def audit(self):
        """The events of the audit log (a list of objects), the oldest first. A line that is being written
        while this reads has no end yet, and is left out."""
        events = []
        for path in sorted(glob.glob(os.path.join(self.state, "scb", "**", "audit*.jsonl"), recursive=True)):
            with open(path, "rb") as f:
                events += [json.loads(line) for line in f.read().split(b"\n")[:-1]]
        return events

    def sandbox_ids(self):
        return {e["sandboxId"] for e in self.audit() if e.get("sandboxId")}

    def leftovers(self, gone_pids=(), *spared):
        """What is still there of every sandbox that this place's brokers made; processes that are spared
        may live on, and the socket of a broker with them."""
        found = [f"process {pid}: {command_line(pid)}" for pid in gone_pids if alive(pid)]
        ids = self.sandbox_ids()
        for where, dirs, names in os.walk(self.run):
            found += [os.path.join(where, n) for n in dirs + names if any(i in n for i in ids)]
            found += [os.path.join(where, n) for n in names
                      if is_socket(os.path.join(where, n)) and not (spared and n == "broker")]
        for where, dirs, _ in os.walk("/sys/fs/cgroup"):
            found += [os.path.join(where, d) for d in dirs if any(i in d for i in ids)]
        with open("/proc/self/mountinfo") as f:
            found += ["mount " + line.split()[4] for line in f if any(i in line for i in ids)]
        found += ["container " + name for name in self.containers()]
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid() and any(i in command_line(entry) for i in ids):
                found.append(f"process {entry}: {command_line(entry)}")
        if self.prefix:  # a uid of its own: nothing else may run under it
            for entry in os.listdir("/proc"):
                try:
                    if not entry.isdigit() or int(entry) in spared:
                        continue
                    if os.stat("/proc/" + entry).st_uid == self.uid and alive(entry):
                        found.append(f"process {entry} of uid {self.uid}: {command_line(entry)}")
                except OSError:
                    pass
        return found

    def containers(self):
        """The names of its brokers' containers: they are labelled with the broker's runtime directory."""
        if PROVIDER != "docker":
            return []
        of = [line.split("=") for line in containers("--format", '{{.Names}}={{.Label "dev.scb.broker"}}')]
        return [name for name, where in of if where.startswith(self.top)]

    def in_containers(self):
        """Every process in them. Of gVisor's only the sandbox itself is to be seen."""
        names = self.containers()
        first = subprocess.run(["docker", "inspect", "--format", "{{.State.Pid}}", *names], capture_output=True, text=True,
                               check=True).stdout.split() if names else []
        return [p for pid in first if pid != "0" for p in [int(pid), *descendants(int(pid))]]


def alive(pid):
    """True where a process is there and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def is_socket(path):
    import stat
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def descendants(pid):
    """Every process below pid (not pid itself)."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as f:
                    children.setdefault(int(f.read().rsplit(")", 1)[1].split()[1]), []).append(int(entry))
            except OSError:
                pass
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def containers(*more):
    """The names of the engine's containers, those that have ended too; with -q their ids, and so on."""
    return subprocess.run(["docker", "ps", "-a", *(more or ["--format", "{{.Names}}"])], capture_output=True,
                          text=True, check=True).stdout.split()


def in_containers():
    """Every process of the engine's containers. Of gVisor's only the sandbox itself is to be seen."""
    where = os.path.dirname(ENGINE["DOCKER_HOST"].removeprefix("unix://"))
    shims = [int(p) for p in os.listdir("/proc")
             if p.isdigit() and f"{where}/" in command_line(p) and "containerd-shim" in command_line(p)]
    return [p for shim in shims for p in descendants(shim)]


def busy():
    """How many times longer things take because others keep the machine busy."""
    return max(1, os.getloadavg()[0] / os.cpu_count())


def until(predicate, timeout, step=0.02):
    """True as soon as predicate() is; False where it never was."""
    end = time.monotonic() + timeout * SLOW
    while True:
        if predicate():
            return True
        if time.monotonic() > end:
            return False
        time.sleep(step)


class Case(unittest.TestCase):
    """Tests that share one broker; SERVE are its arguments."""

    SERVE = ()
    ENV = {}
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.place = Place()
        cls.client = None
        cls.broker()

    @classmethod
    def broker(cls):
        """The shared broker; a new one where the last has died (the test that killed it failed)."""
        if cls.client is None or not cls.client.alive():
            cls.client = cls.place.serve(*cls.SERVE, **cls.ENV)
            cls.client.initialize()
        return cls.client

    def setUp(self):
        self.broker()

    @classmethod
    def tearDownClass(cls):
        client, place = cls.client, cls.place
        below = descendants(client.pid)
        took = client.close()
        place.end()
        assert not client.faults, f"stdout held what is no protocol: {client.faults[:5]}"
        assert client.proc.returncode == 0, f"exit status {client.proc.returncode}" + client.explain()
        assert took < (10 if SANITIZED else 2) * SLOW, f"ended only {took:.1f} s after EOF"
        if not until(lambda: not place.leftovers(below), 5):
            raise AssertionError(f"left behind: {place.leftovers(below)}")
        shutil.rmtree(place.top, True)

    def explain(self):
        return self.client.explain() if self.client else ""

    # -- short hands

    def sh(self, command, **arguments):
        return self.client.tool("run_command", command=command, **arguments)

    def py(self, code, **arguments):
        return self.client.tool("run_code", language="python", code=code, **arguments)

    def open(self, **arguments):
        """A session of its own, closed after the test."""
        r = self.client.tool("session", action="open", **arguments)
        self.assertFalse(r.is_error, r.text)
        handle = r.session

        def close():
            if self.client.alive():
                self.client.tool("session", action="close", session=handle)

        self.addCleanup(close)
        return handle

    # -- assertions

    def assertDone(self, r, code=0, reason="exit"):
        self.assertFalse(r.is_error, str(r))
        self.assertEqual(("done", r.reason), (r.status, reason), str(r))
        if code is not None:
            self.assertEqual(code, r.exitCode, str(r))

    def assertRefused(self, r, *words):
        """An isError result, text alone, whose text says each of the words (any case)."""
        self.assertTrue(r.is_error, str(r))
        self.assertIsNone(r.data, "structuredContent on an error result")
        for word in words:
            alternatives = word if isinstance(word, tuple) else (word,)
            self.assertTrue(any(w.lower() in r.text.lower() for w in alternatives),
                            f"{alternatives} not in: {r.text}")

    def assertFast(self, r, seconds):
        """Answered within so many seconds; more, in proportion, where others keep the machine busy."""
        if not SANITIZED:
            self.assertLess(r.took, seconds * busy() * SLOW, str(r))

    def below(self):
        """Every process that the broker, or its engine, has made."""
        return in_containers() if PROVIDER == "docker" else descendants(self.client.pid)

    def sandbox_processes(self, word, session=None):
        """Processes in sandboxes (with gVisor: in this one) whose command line holds word."""
        if GVISOR:
            r = self.client.tool("run_command", command=f"pgrep -f '[{word[0]}]{word[1:]}'",
                                 **({"session": session} if session else {}))
            return [] if r.is_error else r.stdout.split()
        return [p for p in self.below() if word in command_line(p)]


def only(*providers, because=None):
    """Skips a test on the other providers, whose capabilities do not promise it, or because of something else."""
    return unittest.skipUnless(PROVIDER in providers, because or f"{PROVIDER} does not promise this (its capabilities say so)")


def main():
    _become()
    tap.main()
