#!/usr/bin/python3
"""Kernels that are forked from the template, and sandboxes that are kept ready: nothing of the template, of
the broker or of a sibling may be seen in them, and they do what a kernel that was started plainly does."""
import glob
import importlib.util
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import harness
from harness import alive, command_line, descendants, until

HAS_PANDAS = importlib.util.find_spec("pandas") is not None


def recorded(place, kind):
    """The first processes that the records of a runtime directory name: t templates, x sandboxes."""
    found = {}
    for path in glob.glob(os.path.join(place.run, "scb", "b-*", kind + "-*.box")):
        try:
            with open(path) as f:
                first = [int(line.split()[1]) for line in f if line.startswith("first ")]
        except OSError:
            continue
        if first:
            found[os.path.basename(path)] = first[0]
    return found


@unittest.skipUnless(HAS_PANDAS, "pandas is not installed for this Python")
class Forked(harness.Case):
    SERVE = ("--solo", "--limit", "pool=1")

    def value(self, code, **arguments):
        r = self.py(code, **arguments)
        self.assertDone(r)
        return json.loads(eval(r.results[0]["mime"]["text/plain"]))

    def ask(self, code, **arguments):
        return self.value(f"import json\njson.dumps({code})", **arguments)

    def forked(self):
        """A session whose kernel was forked: it has pandas although no cell has imported it."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            session = self.open()
            if self.ask("'pandas' in __import__('sys').modules", session=session):
                return session
            self.client.tool("session", action="close", session=session)
            time.sleep(0.5)
        self.fail("no kernel was ever forked from a template" + self.explain())

    def both(self, code):
        """The same question to a forked kernel and, in the same sandbox, to one that is started plainly."""
        session = self.forked()
        return self.ask(code, session=session), self.ask(code, session=session, kernel="plain")

    def test_environment(self):
        """its environment is that of a plain kernel; /proc shows nothing of the broker or the template"""
        forked, plain = self.both("dict(__import__('os').environ)")
        self.assertEqual(plain, forked)
        words = (harness.CANARY, "XDG_", self.place.top, "template.py", "scb-enter")
        seen = self.ask(f"""[(name, word) for name in ('environ', 'cmdline', 'maps') for word in {words}
            if word in open('/proc/self/' + name, errors='replace').read()]""", session=self.forked())
        self.assertEqual([], seen)

    def test_confinement(self):
        """confined as a plain kernel is: ids, capabilities, filter, limits, signals, group, folder, descriptors"""
        code = """(lambda os, r: [
            [line for line in open('/proc/self/status') if line.split(':')[0] in ('Uid', 'Gid', 'Groups', 'CapInh',
             'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'Seccomp_filters', 'Umask', 'Threads',
             'SigBlk', 'SigIgn')],
            {name: r.getrlimit(getattr(r, name)) for name in dir(r) if name.startswith('RLIMIT_')},
            open('/proc/self/oom_score_adj').read(), open('/proc/self/uid_map').read(), open('/proc/self/comm').read(),
            [line for line in open('/proc/self/cgroup') if not line.startswith('0::/')],
            os.getcwd(), os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(), os.getpriority(os.PRIO_PROCESS, 0),
            sorted(fd for fd in os.listdir('/proc/self/fd') if int(fd) < 3 or int(fd) >= 64),
            [os.readlink('/proc/self/ns/' + name) for name in ('mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup')][1:],
            ])(__import__('os'), __import__('resource'))"""
        forked, plain = self.both(code)
        self.assertEqual(plain, forked)
        self.assertIn("Seccomp:\t2\n", forked[0])

    def test_python(self):
        """Python looks the same: arguments, path, flags, temporary folder, caches"""
        code = """(lambda sys, tempfile, site: [sys.argv, sys.orig_argv, sys.path, list(sys.flags), sys.executable,
            sys.prefix, tempfile.gettempdir(), site.getuserbase(), sys.stdout.encoding, __name__,
            sys.modules['__main__'].__dict__ is globals(), __import__('matplotlib').get_cachedir(),
            __import__('matplotlib').get_backend(), sorted(name for name in globals() if name[0] != '_')
            ])(__import__('sys'), __import__('tempfile'), __import__('site'))"""
        forked, plain = self.both(code)
        self.assertEqual(plain, forked)

    def test_dashboards(self):
        """what dashboards need is loaded, and found where the sandbox has it"""
        loaded = self.ask("(lambda m: ['scb_dash.service' in m, m['scb_dash'].__path__])(__import__('sys').modules)",
                          session=self.forked())
        self.assertEqual([True, ["/.scb/kernels/python/scb_dash"]], loaded)

    def test_exe(self):
        """/proc/self/exe cannot be written"""
        r = self.py("""
import os
for path in ('/proc/self/exe', '/usr/bin/python3'):
    try:
        os.close(os.open(path, os.O_WRONLY))
        print('open')
    except OSError as e:
        print(e.errno)
""", session=self.forked())
        self.assertDone(r)
        self.assertNotIn("open", r.stdout)
        self.assertNotIn("26", r.stdout.split(), "ETXTBSY: only its running kept it from being written")

    def test_random(self):
        """siblings draw different numbers, keys and names"""
        code = """(lambda np, random, uuid, secrets, mp, tempfile: [random.random(), float(np.random.rand()),
            float(np.random.default_rng().random()), str(uuid.uuid4()), str(uuid.uuid1()), secrets.token_hex(8),
            mp.current_process().authkey.hex(), tempfile.mktemp()])(__import__('numpy'), __import__('random'),
            __import__('uuid'), __import__('secrets'), __import__('multiprocessing'), __import__('tempfile'))"""
        a = self.ask(code, session=self.forked())
        b = self.ask(code, session=self.forked())
        for x, y in zip(a, b):
            self.assertNotEqual(x, y)

    def test_thread(self):
        """its only thread has the number, and runs on the processor, that the C library says"""
        r = self.py("""
import ctypes, os, threading
libc, at = ctypes.CDLL(None), ctypes.c_void_p()
libc.prctl(40, ctypes.byref(at), 0, 0, 0)
def runs_on(cpu):
    os.sched_setaffinity(0, [cpu])
    return libc.sched_getcpu() == cpu
mine = os.sched_getaffinity(0)
[ctypes.c_int.from_address(at.value).value == threading.get_native_id() == os.getpid(), all(map(runs_on, mine))]
""", session=self.forked())
        self.assertDone(r)
        self.assertEqual("[True, True]", r.results[0]["mime"]["text/plain"])

    def test_alone(self):
        """the spare whose memory a kernel has taken over is gone: below the template there are supervisors, their
        kernels, and the next spare"""
        for _ in range(3):
            self.forked()
        mine = descendants(self.client.pid)
        template = next(pid for pid in recorded(self.place, "t").values() if pid in mine)

        def others():
            with open(f"/proc/{template}/task/{template}/children") as f:
                return [pid for pid in f.read().split() if "supervise" not in command_line(int(pid))]
        self.assertTrue(until(lambda: len(others()) == 1, 5), others())

    def test_works(self):
        """threads, processes, pools, event loops, pictures, magics, input and later imports work in it"""
        session = self.forked()
        r = self.py("""
import asyncio, concurrent.futures, multiprocessing, sqlite3, subprocess, sys, tempfile, threading
def double(x):
    return 2 * x
seen = []
t = threading.Thread(target=lambda: seen.append(1)); t.start(); t.join()
with multiprocessing.Pool(2) as pool:
    print(pool.map(double, [1, 2]))
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    print(list(pool.map(double, [3])))
print(seen, subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout.strip(), asyncio.run(asyncio.sleep(0, 7)))
print(sqlite3.connect(':memory:').execute('select 1').fetchone(), tempfile.mkdtemp().startswith('/tmp'))
print(input())
""", session=session, stdin="line\n")
        self.assertDone(r)
        self.assertEqual("[2, 4]\n[6]\n[1] hi 7\n(1,) True\nline\n", r.stdout)
        r = self.py("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone", session=session)
        self.assertIn("image/png", r.results[0]["mime"])
        r = self.py("%pwd", session=session)
        self.assertEqual("'/workspace'", r.results[0]["mime"]["text/plain"])
        r = self.py("!echo $HOME", session=session)
        self.assertEqual("/workspace\n", r.stdout)

    def test_ends(self):
        """a timeout leaves its state; killed, it is said so, and the next cell starts a plain one"""
        session = self.forked()
        self.py("x = 5", session=session)
        r = self.py("while True: pass", session=session, timeout_s=1)
        self.assertEqual("timeout", r.reason, str(r))
        self.assertEqual(5, self.ask("x", session=session))
        r = self.py("import os; os.kill(os.getpid(), 9)", session=session)
        self.assertEqual("interpreter_died", r.reason, str(r))
        self.assertFalse(self.ask("'x' in globals()", session=session))

    def test_close(self):
        """a closed session: nothing of its kernel stays, not even a zombie at the template"""
        session = self.forked()
        self.assertDone(self.py("import subprocess; subprocess.Popen(['sleep', '93.25'])\nNone", session=session))
        below = [p for p in descendants(self.client.pid) if "93.25" in command_line(p)]
        self.assertTrue(below or self.place.prefix is not None)
        began = time.monotonic()
        self.client.tool("session", action="close", session=session)
        self.assertLess(time.monotonic() - began, 5)
        self.assertTrue(until(lambda: not [p for p in below if alive(p)], 5))
        self.assertTrue(until(lambda: not self.zombies(), 5), self.zombies())

    def zombies(self):
        found = []
        for pid in descendants(self.client.pid):
            try:
                with open(f"/proc/{pid}/stat") as f:
                    if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                        found.append(pid)
            except OSError:
                pass
        return found

    def test_peers(self):
        """code that was there first sees nothing of a kernel that comes into its sandbox"""
        snoop = r"""
import os, sys, time
end = time.time() + 20
mine = {os.getpid()}
print('ready', flush=True)
while time.time() < end and not os.path.exists('/workspace/stop'):
    for pid in [int(p) for p in os.listdir('/proc') if p.isdigit()]:
        if pid in mine: continue
        for name in ('environ', 'mem', 'maps', 'fd', 'exe', 'root'):
            path = f'/proc/{pid}/{name}'
            try:
                if name == 'fd': os.readlink(path + '/0')
                elif name in ('exe', 'root'): os.readlink(path)
                else:
                    with open(path, 'rb') as f:
                        if not f.read(1): continue  # it has ended
                print('SEEN', path, open(f'/proc/{pid}/comm').read().strip(), flush=True)
            except (OSError, ValueError):
                pass
"""
        self.forked()  # there is a template
        session = self.open()
        r = self.client.tool("files", action="write", path="snoop.py", content=snoop, session=session)
        self.assertFalse(r.is_error, r.text)
        job = self.sh("exec python3 snoop.py", session=session, wait_s=0)
        self.assertTrue(until(lambda: "ready" in self.client.tool("job", action="read", job=job.job).text, 60, 0.5))
        self.ask("'pandas' in __import__('sys').modules", session=session)
        self.sh("touch stop", session=session)
        done = self.client.tool("job", action="wait", job=job.job, wait_s=30)
        self.assertNotIn("SEEN", done.stdout, str(done))

    def test_template_dies(self):
        """kernels outlive their template; later ones start plainly, or from a new one"""
        session = self.forked()
        self.py("x = 7", session=session)
        mine = descendants(self.client.pid)
        killed = [pid for pid in recorded(self.place, "t").values() if pid in mine]
        self.assertEqual(1, len(killed), recorded(self.place, "t"))
        os.kill(killed[0], signal.SIGKILL)
        self.assertTrue(until(lambda: not alive(killed[0]), 5))
        self.assertEqual(7, self.ask("x", session=session))
        other = self.open()
        self.assertEqual(2, self.ask("1 + 1", session=other))
        self.client.tool("session", action="close", session=session)
        self.assertEqual(2, self.ask("1 + 1", session=other))

    def test_pool(self):
        """what is kept ready is nobody's: in no list, under no cap, another one once it was taken"""
        client = self.place.serve("--solo", "--limit", "pool=1", "--limit", "sessions=1",
                                  "--state", self.place.folder("pool-state"))
        client.initialize()
        try:
            first = client.tool("session", action="open")
            self.assertFalse(first.is_error, first.text)
            ready = lambda: len(self.boxes(client)) == 2  # noqa: E731
            self.assertTrue(until(ready, 120), self.boxes(client))
            before = self.boxes(client)
            listed = client.tool("session", action="list")
            self.assertEqual(1, listed.text.count("s-"), listed.text)
            client.tool("session", action="close", session=first.session)
            second = client.tool("session", action="open")
            self.assertFalse(second.is_error, second.text)
            r = client.tool("run_code", language="python", code="1 + 1", session=second.session)
            self.assertEqual("2", r.results[0]["mime"]["text/plain"])
            self.assertTrue(until(ready, 60), self.boxes(client))
            self.assertEqual(1, len(before & self.boxes(client)), "the one that was ready is the second session's")
        finally:
            client.close()

    def boxes(self, client):
        """The sandboxes of a broker, by their records."""
        mine = descendants(client.pid)
        return {name for name, pid in recorded(self.place, "x").items() if pid in mine}

    def test_switched_off(self):
        """pool=0: neither a template nor a sandbox more than was asked for"""
        client = self.place.serve("--solo", "--limit", "pool=0", "--state", self.place.folder("off-state"))
        client.initialize()
        try:
            client.tool("run_code", language="python", code="1")
            time.sleep(1.5)
            mine = descendants(client.pid)
            self.assertEqual([], [pid for pid in recorded(self.place, "t").values() if pid in mine])
            self.assertEqual(1, len(self.boxes(client)))
        finally:
            client.close()


@unittest.skipUnless(harness.MODE == "user", "a root broker's template is not its own user")
class Alone(unittest.TestCase):
    """template.py by itself, with what the broker gives it."""

    def setUp(self):
        self.place = harness.Place()
        self.path = os.path.join(self.place.run, "sock")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen(8)
        self.addCleanup(self.listener.close)
        # Whose pipe it is, is the broker.
        me = os.geteuid()
        os.seteuid(self.place.uid)
        self.reading, self.writing = os.pipe()
        os.seteuid(me)

    def start(self, kernels=None, python="/usr/bin/python3"):
        kernels = kernels or os.path.join(self.place.bin, "kernels")
        fds = [self.listener.fileno(), self.reading]
        process = subprocess.Popen(
            [*self.place.prefix, python, kernels + "/python/template.py", *map(str, fds), "build"], pass_fds=fds,
            env={"PATH": "/usr/bin:/bin", "HOME": self.place.home, "TMPDIR": self.place.home, "LANG": "C.UTF-8",
                 "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            cwd="/", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        os.close(self.reading)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def request(self, tag, value=b""):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.settimeout(120)
        connection.connect(self.path)
        connection.send(struct.pack(">HI", tag, len(value)) + value)
        self.addCleanup(connection.close)
        return connection

    @staticmethod
    def answer(connection):
        data = connection.recv(4096)
        return (None, b"") if not data else (struct.unpack(">H", data[:2])[0], data[6:])

    def test_writable(self):
        """refused where the program lies in a file that this uid may write"""
        mine = os.path.join(self.place.home, "python3")
        shutil.copy2(os.path.realpath("/usr/bin/python3"), mine)
        os.chown(mine, self.place.uid, self.place.uid)
        process = self.start(python=mine)
        said = process.communicate(timeout=120)[1]
        os.close(self.writing)
        self.assertEqual(3, process.returncode, said)
        self.assertIn("may be written by this user", said)

    def test_stale(self):
        """what it has loaded is changed on the disk: no further kernel is forked, and it ends"""
        kernels = os.path.join(self.place.top, "kernels")
        shutil.copytree(os.path.join(self.place.bin, "kernels"), kernels)
        process = self.start(kernels)
        hold = self.request(1)
        self.assertEqual((16, b"build"), self.answer(hold))
        os.utime(os.path.join(kernels, "python", "scb_kernel", "loop.py"))
        tag, text = self.answer(self.request(2, b"x"))
        self.assertEqual(19, tag)
        self.assertIn(b"changed", text)
        self.assertEqual((None, b""), self.answer(hold))
        self.assertEqual(0, process.wait(20))
        os.close(self.writing)

    def test_lifeline(self):
        """it lives as long as one of creator and holders does, whatever is asked of it"""
        process = self.start()
        hold = self.request(1)
        self.assertEqual((16, b"build"), self.answer(hold))
        self.assertEqual(19, self.answer(self.request(2, b"x"))[0])  # no descriptors: the spare refuses
        os.close(self.writing)
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        hold.close()
        self.assertEqual(0, process.wait(20))

    def test_orphaned_while_loading(self):
        """its creator dies while it still loads: it goes at once"""
        code = ("import os, subprocess, sys; p = subprocess.Popen(sys.argv[1:], close_fds=False, stdout=2); "
                "print(p.pid, flush=True); sys.stdin.read()")
        fds = [self.listener.fileno(), self.reading]
        script = os.path.join(self.place.bin, "kernels", "python", "template.py")
        creator = subprocess.Popen(
            [*self.place.prefix, "/usr/bin/python3", "-c", code, "/usr/bin/python3", script, *map(str, fds), "build"],
            pass_fds=fds, env={"HOME": self.place.home, "TMPDIR": self.place.home}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        pid = int(creator.stdout.readline())
        time.sleep(0.3)
        os.close(self.reading)
        os.close(self.writing)
        creator.kill()
        creator.communicate()
        self.assertTrue(until(lambda: not alive(pid), 3), command_line(pid))


if __name__ == "__main__":
    harness.main()
