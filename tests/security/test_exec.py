#!/usr/bin/python3
"""Attacks on running: what stops, starves, floods or outlives its supervisor, its session or its limits."""
import os
import time
import unittest

import attack
import harness
from harness import only, until

MIB = 1 << 20


class Stops(attack.Attack):
    """Code stops what watches over it. Calls return in time all the same, limits hold, the session can be closed."""

    def closes(self, session):
        began = time.monotonic()
        r = self.client.tool("session", action="close", session=session)
        self.assertFalse(r.is_error, r.text)
        self.assertFast(r, 2)
        self.assertLess(time.monotonic() - began, 10)
        self.audited("session.close", session=session)

    def stopped(self, command):
        s = self.open()
        r = self.sh(command, session=s, wait_s=1, timeout_s=2)
        self.assertEqual("running", r.status, str(r))
        self.assertFast(r, 4)
        self.assertDone(self.sh("echo other", session=s, wait_s=10))
        r = self.client.tool("job", action="wait", job=r.job, wait_s=15)
        self.assertEqual(("done", "timeout"), (r.status, r.reason), str(r))
        end = self.audited("exec.end", job=r.job)[0]
        self.assertEqual("timeout", end["exitReason"])
        self.assertLessEqual(attack.LIMIT, set(end["owasp"]))
        self.closes(s)

    def test_parent(self):
        """a command stops its supervisor: the call returns with a handle, the time limit holds"""
        self.stopped("kill -STOP $PPID; echo hi; sleep 0.2")

    @only("bubblewrap")
    def test_all(self):
        """a command stops everything of its uid: the same"""
        self.stopped("kill -STOP -1; kill -STOP $$")

    @only("bubblewrap")
    def test_kernel(self):
        """a cell stops its supervisor and kills everything: the next one runs, or says that state was lost"""
        s = self.open()
        self.assertDone(self.py("import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\n1", session=s))
        self.assertDone(self.py("2", session=s))
        r = self.py("os.kill(-1, 9)", session=s, wait_s=10, timeout_s=5)
        self.assertFalse(r.is_error, str(r))
        self.client.tool("session", action="restart", session=s)
        r = self.py("3", session=s)
        self.assertEqual("3", r.results[0]["mime"]["text/plain"], str(r))
        self.closes(s)

    def test_outputs(self):
        """outputs closed early, held open by a child, a terminal asked for: the call ends with its leader"""
        r = self.sh("exec >&- 2>&- <&-; sleep 0.3; exit 3")
        self.assertDone(r, 3)
        r = self.sh("(trap '' TERM INT HUP; sleep 20) & exit 4")
        self.assertDone(r, 4)
        self.assertFast(r, 4)
        r = self.sh("read x; echo got:$x; read y </dev/tty; tty")
        self.assertDone(r, None)
        self.assertIn("got:\n", r.stdout)
        self.assertFast(r, 4)


class Trees(attack.Attack):
    """Whatever a command becomes, it is gone a second after its end was asked for."""

    def gone(self, command, word):
        s = self.open()
        r = self.sh(command, session=s, wait_s=10, timeout_s=1.5)
        self.assertEqual("timeout", r.reason, str(r))
        self.assertTrue(until(lambda: not self.sandbox_processes(word), 1), self.sandbox_processes(word))
        self.assertDone(self.sh("echo next", session=s))

    def test_daemons(self):
        """daemons by double fork, sessions of their own, deaf to every signal"""
        self.put("daemon.py", """import os, signal, time
for i in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for n in set(range(1, 65)) - {9, 19, 32, 33}:
            signal.signal(n, signal.SIG_IGN)
        os.execvp('sleep', ['sleep', '71.25'])
time.sleep(60)
""")
        here = self.sh("pwd").stdout.strip()
        r = self.sh(f"exec python3 {here}/daemon.py", wait_s=10, timeout_s=2)
        self.assertEqual("timeout", r.reason, str(r))
        self.assertTrue(until(lambda: not self.sandbox_processes("sleep 71.25"), 1), self.sandbox_processes("sleep 71.25"))
        self.assertDone(self.sh("echo next"))

    @only("bubblewrap")
    def test_threads(self):
        """threads without end meet the limit of processes; the sandbox goes on"""
        s = self.open()
        r = self.sh("""exec python3 -c "
import threading, time
n = 0
try:
    while n < 100000:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        n += 1
except RuntimeError:
    print('stopped at', n, flush=True)
import os; os._exit(7)
" """, session=s, wait_s=30, timeout_s=20)
        if r.exitCode == 7:
            self.assertLess(int(r.stdout.split()[-1]), 256, str(r))
        else:  # it could not even say so
            self.assertIn(r.reason, ("too_many_processes", "out_of_memory", "signal"), str(r))
        self.assertDone(self.sh("echo next", session=s))

    @only("bubblewrap")
    def test_refork(self):
        """what re-forks as fast as it can, under ever new numbers"""
        self.gone("""exec python3 -c "
import os, time
for i in range(8):
    if os.fork() == 0:
        while True:
            if os.fork():
                os._exit(0)
            os.setsid()
time.sleep(60)
" re-fork-marker""", "re-fork-marker")

    def test_descriptors(self):
        """a program that uses up its descriptors fails by itself"""
        r = self.sh("""exec python3 -c "
import os
try:
    while True: os.dup(0)
except OSError as e:
    print(e.errno)
" """)
        self.assertDone(r)
        self.assertEqual("24\n", r.stdout)
        self.assertDone(self.sh("true"))


class Floods(attack.Attack):
    """Output of every kind: bounded answers, a broker that does not grow, nothing for a terminal."""

    def setUp(self):
        super().setUp()
        self.before = self.client.rss()

    def bounded(self, r):
        self.assertLess(len(str(r.result)), 200_000)
        if not harness.SANITIZED:
            self.assertLess(self.client.rss() - self.before, 4 * MIB)
        self.audited("exec.end", job=r.job)

    def test_one_line(self):
        """a line of 200 MB"""
        r = self.sh("head -c 200000000 /dev/zero | tr '\\0' x", wait_s=40)
        self.assertDone(r)
        self.assertGreater(r.omitted["stdout"], 190_000_000)
        self.bounded(r)

    def test_single_bytes(self):
        """single bytes, one write each, for two seconds"""
        r = self.py("import os, time\nend, n = time.time() + 2, 0\nwhile time.time() < end:\n    n += os.write(1, b'x')\nn", wait_s=40)
        self.assertDone(r)
        self.assertGreater(int(r.results[0]["mime"]["text/plain"]), 10_000)
        self.bounded(r)

    def test_terminal(self):
        """escape sequences (clipboard, title, links, DCS, C1, direction marks), split at every byte"""
        bomb = b"\x1b]52;c;cHduZWQ=\x07\x1b]0;title\x07\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\\x1b[2J\x1bP1$r\x1b\\\xc2\x9b31m\x9b2J\x08\x7f\x00end"
        r = self.py(f"import os\nfor b in {bomb!r}:\n    os.write(1, bytes([b])); os.write(2, bytes([b]))\nprint({bomb!r})")
        self.assertDone(r)
        for text in (r.stdout, r.stderr, r.text):
            self.assertIn("end", text)
            self.assertNotRegex(text, "[\x00-\x08\x0b-\x1f\x7f-\x9f]")
        r = self.py(f"raise ValueError({bomb.decode('latin-1')!r})")
        self.assertNotRegex(r.text, "[\x00-\x08\x0b-\x1f\x7f-\x9f]")

    def test_values(self):
        """values whose text has 100 MB, thousands of displays, a table of giants"""
        for code in ("class A:\n    def __repr__(self): return 'x' * 100_000_000\nA()",
                     "for i in range(20_000): display({'text/plain': 'x'}, raw=True)",
                     "display({'application/json': '[' * 1_000_000}, raw=True)",
                     "raise type('E' * 1_000_000, (Exception,), {})('m' * 10_000_000)"):
            with self.subTest(code=code):
                r = self.py(code, wait_s=45)
                self.assertFalse(r.is_error, r.text)
                self.bounded(r)

    def test_bundles(self):
        """MIME bundles that are none cost what they show, not the session"""
        s = self.open()
        for bundle in ("{'a' * 1000000: 'x'}", "{'no type': 'x'}", "{'x/\\x00\\n\"': 'y'}", "{'text/plain\\r\\nX: y': 'z'}", "{'': ''}", "{None: 'x'}",
                       "{f'x/{i}': 'y' for i in range(1000)}", "{'text/plain': b'\\xff' * 1000}", "{'image/png': '!!'}", "{'application/json': {1: {2}}}"):
            with self.subTest(bundle=bundle):
                r = self.py(f"try:\n    display({bundle}, raw=True)\nexcept Exception as e:\n    print(type(e))\n'after'", session=s)
                self.assertFalse(r.is_error, r.text)
                self.assertIn("'after'", str(r.results))


@unittest.skipUnless(harness.PROVIDER == "bubblewrap", "local: one user, no namespaces")
class Siblings(attack.Attack):
    """Nothing of one sandbox is seen in another."""

    def test_apart(self):
        """processes, abstract sockets, shared memory, queues, files, ports, host names"""
        a, b = self.open(), self.open()
        r = self.py("""
import os, socket, subprocess, multiprocessing.shared_memory as shm, sysconfig
s = socket.socket(socket.AF_UNIX); s.bind(b'\\0scb-attack'); s.listen()
t = socket.socket(); t.bind(('127.0.0.1', 47123)); t.listen()
m = shm.SharedMemory('scb-attack', create=True, size=100)
p = subprocess.Popen(['sleep', '83.5'])
queue = subprocess.run(['ipcmk', '-M', '100', '-Q'], capture_output=True, text=True).stdout
for path in ('/workspace/scb-attack', '/tmp/scb-attack', '/dev/shm/scb-attack2'):
    open(path, 'w').write('secret')
os.getpid(), p.pid""", session=a)
        self.assertDone(r)
        r = self.py("""
import os, socket, subprocess, multiprocessing.shared_memory as shm
found = []
def tried(name, f):
    try:
        f()
        found.append(name)
    except OSError:
        pass
tried('abstract', lambda: socket.socket(socket.AF_UNIX).connect(b'\\0scb-attack'))
tried('port', lambda: socket.create_connection(('127.0.0.1', 47123), 1))
tried('shm', lambda: shm.SharedMemory('scb-attack'))
for path in ('/workspace/scb-attack', '/tmp/scb-attack', '/dev/shm/scb-attack', '/dev/shm/scb-attack2'):
    tried(path, lambda: open(path))
found += [p for p in os.listdir('/proc') if p.isdigit() and b'83.5' in open(f'/proc/{p}/cmdline', 'rb').read()]
found += [line for line in subprocess.run(['ipcs'], capture_output=True, text=True).stdout.splitlines() if line.startswith('0x')]
found += [line for line in open('/proc/net/unix') if 'scb-attack' in line]
found""", session=b)
        self.assertDone(r)
        self.assertEqual("[]", r.results[0]["mime"]["text/plain"])

    def test_broker(self):
        """the broker's socket, the front, the state directory, the links of other sandboxes: no way there"""
        paths = [self.place.state, os.path.join(self.place.state, "scb", "broker.json"), self.place.run, self.place.home, "/run/scb"]
        for where, dirs, names in os.walk(self.place.run):
            paths += [os.path.join(where, n) for n in names]
        self.assertTrue(any(p.endswith("/broker") for p in paths), paths)
        r = self.py(f"""
import os, socket
found = []
for path in {paths!r}:
    for way in (path, '/proc/1/root' + path, '/proc/self/root' + path, '/mnt/..' + path):
        try:
            os.stat(way)
            found.append(way)
        except OSError:
            pass
        try:
            s = socket.socket(socket.AF_UNIX); s.connect(way[:107]); found.append(way)
        except OSError:
            pass
found""")
        self.assertDone(r)
        self.assertEqual("[]", r.results[0]["mime"]["text/plain"])

    def test_twin(self):
        """a twin is confined as its kernel is"""
        s = self.open()
        code = """[[line for line in open('/proc/self/status') if line.split(':')[0] in ('Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', 'CapEff',
            'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'Seccomp_filters')], open('/proc/self/uid_map').read(),
            [line for line in open('/proc/self/cgroup')], __import__('resource').getrlimit(__import__('resource').RLIMIT_CORE),
            __import__('os').readlink('/proc/self/cwd'), __import__('os').readlink('/proc/self/root')]"""
        before = self.py(code, session=s)
        r = self.client.tool("session", action="fork", session=s, name="twin")
        self.assertFalse(r.is_error, r.text)
        twin = self.py(code, session=s, kernel="twin")
        self.assertEqual(before.results, twin.results)
        self.assertIn("Seccomp:\\t2", twin.results[0]["mime"]["text/plain"])
        r = self.py("""
import os
out = []
for path in ['/proc/self/exe', '/usr/bin/python3', '/.scb/scb-agent'] + [f'/proc/{p}/exe' for p in os.listdir('/proc') if p.isdigit()]:
    try:
        os.close(os.open(path, os.O_WRONLY)); out.append(path)
    except OSError:
        pass
for fd in os.listdir('/proc/self/fd'):
    try:
        link = os.readlink('/proc/self/fd/' + fd)
        if os.path.isdir('/proc/self/fd/' + fd) and not link.startswith('/proc/'):
            out.append(link)
    except OSError:
        pass
out""", session=s, kernel="twin")
        self.assertEqual("[]", r.results[0]["mime"]["text/plain"])


if __name__ == "__main__":
    harness.main()
