"""A policy file through the whole product: found, checked, enforced, explained, changed while calls run."""
import json
import os
import re
import signal
import threading
import time

import harness
from harness import PROVIDER, Place, until

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DOCS = os.path.join(ROOT, "docs")
ALL = ["run_code", "run_command", "job", "files", "present_output", "session"]


def policy(**keys):
    return {"version": 1, "tools": {"allow": ALL, "images": True}, **keys}


class PolicyCase(harness.Case):
    """A place of its own for each test; no broker until one is asked for."""

    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass

    def setUp(self):
        self.place = Place()
        self.client = None
        self.path = os.path.join(self.place.home, "policy.json")
        self.addCleanup(self.place.end)

    def write(self, rules, path=None):
        """Replaced by renaming, as editors do it."""
        path = path or self.path
        text = rules if isinstance(rules, str) else json.dumps(rules, indent=1)
        self.place.file(path + ".new", text.encode())
        os.chmod(path + ".new", 0o600)
        os.rename(path + ".new", path)

    def serve(self, rules=None, *arguments, **env):
        if rules is not None:
            self.write(rules)
            arguments = ("--policy", self.path, *arguments)
        self.client = self.place.serve(*arguments, **env)
        self.addCleanup(self.client.close)
        self.client.initialize()
        return self.client

    def events(self, name):
        return [e for e in self.place.audit() if e["event"] == name]

    def reloaded(self, n, ok=True):
        """Waits for the n-th line of a reload, and returns it."""
        self.assertTrue(until(lambda: len(self.events("policy.reload")) >= n, 5), self.events("policy.reload"))
        line = self.events("policy.reload")[n - 1]
        self.assertEqual(ok, line["detail"].endswith("in force"), line)
        return line


class Commands(PolicyCase):
    """scb policy"""

    def examples(self):
        with open(os.path.join(DOCS, "policy.md"), encoding="utf-8") as f:
            return re.findall(r"^```json\n(.*?)^```", f.read(), re.M | re.S)

    def test_examples_and_schema(self):
        """the examples of docs/policy.md are good, and what the parser refuses the schema refuses, too"""
        try:
            import jsonschema
        except ImportError:
            self.skipTest("python3-jsonschema is not installed")
        with open(os.path.join(DOCS, "policy.schema.json"), encoding="utf-8") as f:
            schema = json.load(f)
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        shown = self.place.scb("policy", "show").stdout
        good = [*self.examples(), shown, '{"version": 1}', '{"version": 1, "principals": {}}',
                '{"version": 1, "limits": {"memory": 1073741824, "pool": 0}}']
        self.assertGreaterEqual(len(good), 7)
        for text in good:
            validator.validate(json.loads(text))
            self.write(text)
            done = self.place.scb("policy", "check", self.path)
            self.assertEqual((0, f"{self.path}: good\n"), (done.returncode, done.stdout), text + done.stdout)
        bad = [[], {}, {"version": 2}, policy(tool={}), policy(tools=[]), policy(tools={"allow": ["rm"]}),
               policy(tools={"allow": ["files.reed"]}), policy(tools={"allow": "files"}),
               policy(limits={"memory": -1}), policy(limits={"pids": "64"}), policy(limits={"pids": 3}),
               policy(limits={"outputs": "1G"}), policy(limits={"max_timeout_s": 3601}), policy(mounts={"path": "/a"}),
               policy(mounts=[{}]), policy(mounts=[{"path": "a"}]), policy(mounts=[{"path": "/a", "name": "../b"}]),
               policy(outputs={"allow": "yes"}), policy(outputs={"max": 1}), policy(secrets=[]),
               policy(secrets={"A": {}}), policy(secrets={"A": {"source": "X"}}),
               policy(secrets={"A": {"source": "env:X", "exec": ["/bin/true"]}}),
               policy(secrets={"A": {"source": "env:X", "exposure": "all"}}), policy(secrets={"..": {"source": "env:X"}}),
               policy(require={}), policy(require={"isolationLevel": "vm"}), policy(require={"enforced": []}),
               policy(audit={"fsync": True}), policy(audit={"keep": 0}), policy(rate={}), policy(rate={"callsPerMinute": 0}),
               policy(principals=[]), policy(principals={"": {}}), policy(principals={"a": {"version": 1}}),
               policy(principals={"a": {"limits": {"pool": 1}}})]
        for rules in bad:
            self.assertFalse(validator.is_valid(rules), rules)
            self.write(rules)
            done = self.place.scb("policy", "check", self.path)
            self.assertEqual(1, done.returncode, (rules, done))
            self.assertTrue(done.stdout.startswith(f"{self.path}:"), done.stdout)

    def test_show_check_explain(self):
        """show gives a file that holds the same; check names line, column and key; explain the rule and its line"""
        self.write('{"version": 1,\n "tools": {"allow": ["files",\n  "run_code.python"]},\n'
                   ' "limits": {"memory": "2G"}, "mounts": [{"path": "/usr/share"}]}')
        env = {"XDG_CONFIG_HOME": self.place.folder("config")}
        self.place.folder("config", "scb")
        own = os.path.join(self.place.top, "config", "scb", "policy.json")
        shown = self.place.scb("policy", "show", "--policy", self.path, "--limit", "memory=1G").stdout
        self.assertEqual("1G", json.loads(shown)["limits"]["memory"])
        self.write(shown, own)
        again = self.place.scb("policy", "show", **env).stdout
        self.assertEqual(json.loads(shown), json.loads(again))

        asked = ("policy", "explain", "--policy", self.path)
        done = self.place.scb(*asked, "run_code.python", "--principal", "uid:7")
        self.assertEqual(0, done.returncode, done)
        self.assertIn(f"allowed\n  rule: tools.allow[1] ({self.path}:3:3)", done.stdout)
        done = self.place.scb(*asked, "run_code.shell")
        self.assertEqual(1, done.returncode, done)
        self.assertIn(f"denied\n  rule: tools.allow ({self.path}:2:12)", done.stdout)
        done = self.place.scb(*asked, "files.read", "--mount", "a=/usr/share/doc", "--mount", "b=/usr/lib")
        self.assertEqual(1, done.returncode, done)
        self.assertIn("mount a=/usr/share/doc: allowed\n  rule: mounts[0]", done.stdout)
        self.assertIn("mount b=/usr/lib: denied\n  rule: mounts (", done.stdout)

        self.write('{"version": 1,\n "tols": {}, "limits": {"pids": 1,\n  "cpus": "2"}}')
        done = self.place.scb("policy", "check", self.path)
        self.assertEqual(1, done.returncode)
        self.assertEqual([["2:2", "tols"], ["2:25", "limits.pids"], ["3:3", "limits.cpus"]],
                         [line[len(self.path) + 1:].split(": ")[:2] for line in done.stdout.splitlines()])
        self.assertEqual(64, self.place.scb("policy").returncode)
        self.assertEqual(64, self.place.scb("policy", "explain").returncode)
        self.assertNotEqual(0, self.place.scb("policy", "check", self.path + "-none").returncode)

    def test_broken_at_the_start(self):
        """with a broken or unsafe file nothing runs, and the host is told where and why"""
        self.write('{"version": 1,\n "tools": {"allow": ["run_cod"]}}')
        for command in (("serve", "--policy", self.path), ("serve", "--solo", "--policy", self.path),
                        ("run", "--policy", self.path, "-c", "print(1)")):
            done = self.place.scb(*command)
            self.assertNotEqual(0, done.returncode, done)
            self.assertIn(f"{self.path}:2:22: tools.allow[0]: \"run_cod\" is no tool", done.stderr)
            self.assertEqual("", done.stdout)
        self.assertIsNone(self.place.broker())
        self.write(policy())
        os.chmod(self.path, 0o622)
        done = self.place.scb("serve", "--policy", self.path)
        self.assertIn("writable by others", done.stderr)
        self.assertEqual(77, done.returncode)
        done = self.place.scb("serve", "--policy", self.path + "-none")
        self.assertIn("No such file", done.stderr)
        self.assertEqual(66, done.returncode)
        # the user's own file, too: there, but not to be trusted
        self.place.folder("config", "scb")
        os.rename(self.path, os.path.join(self.place.top, "config", "scb", "policy.json"))
        done = self.place.scb("serve", XDG_CONFIG_HOME=os.path.join(self.place.top, "config"))
        self.assertEqual(77, done.returncode, done)


class Enforced(PolicyCase):
    """calls under a policy"""

    def test_tools(self):
        """what is not named is refused with its rule, and on record; languages, too; a kernel does not hide one"""
        c = self.serve({"version": 1, "tools": {"allow": ["run_code.python", "files.list", "session"]}})
        r = c.tool("run_code", code="1+1")
        self.assertDone(r)
        self.assertRefused(c.tool("run_code", code="echo", language="shell"), "policy_denied", "tools.allow", "run_code.shell")
        self.assertRefused(c.tool("run_command", command="true"), "tools.allow", "run_command")
        self.assertRefused(c.tool("files", action="read", path="x"), "files.read")
        self.assertFalse(c.tool("files", action="list", path=".").is_error)
        self.assertRefused(c.tool("files", action="steal"), "policy_denied")
        self.assertRefused(c.tool("present_output", path="x"), "present_output")
        lines = self.events("tool.call")
        denied = [e for e in lines if e["policyDecisions"][0]["decision"] == "deny"]
        self.assertEqual(5, len(denied))
        self.assertEqual({"tools.allow"}, {e["policyDecisions"][0]["rule"] for e in denied})
        self.assertIn("tools.allow[0]", [e["policyDecisions"][0]["rule"] for e in lines])
        load = self.events("policy.load")[0]
        self.assertEqual((self.path, 64), (load["path"], len(load["sha256"])))
        self.assertIn("generation 1", load["detail"])

    def test_language_of_a_kernel(self):
        """a kernel that was there before does not run what is forbidden now"""
        c = self.serve(policy())
        self.assertDone(c.tool("run_code", code="x=5", language="shell", kernel="k"))
        self.write(policy(tools={"allow": ["run_code.python", "session"]}))
        self.reloaded(1)
        self.assertRefused(c.tool("run_code", code="echo $x", kernel="k"), "policy_denied", "run_code.shell")
        self.assertDone(c.tool("run_code", code="1"))

    def test_limits(self):
        """a file's limits hold, --limit narrows them, and a reload leaves open sessions theirs"""
        c = self.serve(policy(limits={"memory": "768M", "pids": 100, "max_timeout_s": 7}), "--limit", "pids=60",
                       "--limit", "memory=4G")
        first = c.tool("session", action="open")
        self.assertEqual((768 << 20, 60), (first.limits["memoryBytes"], first.limits["processes"]))
        self.assertRefused(c.tool("run_command", command="true", timeout_s=8), "at most 7")
        self.write(policy(limits={"memory": "512M", "pids": 50}))
        self.reloaded(1)
        second = c.tool("session", action="open")
        self.assertEqual((512 << 20, 50), (second.limits["memoryBytes"], second.limits["processes"]))
        still = c.tool("session", action="info", session=first.session)
        self.assertEqual((768 << 20, 60), (still.limits["memoryBytes"], still.limits["processes"]))

    @harness.only("bubblewrap")
    def test_kept_ready(self):
        """a sandbox that is kept ready with other limits is not given away"""
        def shm(session):
            r = c.tool("run_command", command="df -B1 --output=size /dev/shm | tail -1", session=session)
            return int(r.stdout) >> 20

        def ready():
            with_names = os.listdir(os.path.join(self.place.state, "scb", "store"))
            return sum(name.startswith("pool") for name in with_names)

        c = self.serve(policy(limits={"shm": "32M", "pool": 1}), "--limit", "pool=16")
        first = c.tool("session", action="open").session
        self.assertTrue(until(ready, 30), os.listdir(os.path.join(self.place.state, "scb", "store")))
        self.write(policy(limits={"shm": "48M", "pool": 1}))
        self.reloaded(1)
        second = c.tool("session", action="open").session
        self.assertEqual((32, 48), (shm(first), shm(second)))
        self.assertTrue(until(ready, 10))
        third = c.tool("session", action="open").session
        self.assertEqual(48, shm(third))
        # one that is nobody's counts for nobody, and is no one's to evict
        broker = self.place.broker()
        self.write(policy(limits={"shm": "48M", "pool": 1, "sessions_principal": 3}))
        self.reloaded(2)
        self.assertTrue(until(ready, 10))
        self.assertRefused(c.tool("session", action="open"), "limit_reached", "3 sessions are open")
        self.assertEqual(broker, self.place.broker())

    def test_run_with_a_shorter_limit(self):
        """scb run asks for no more time than the policy gives"""
        self.write(policy(limits={"max_timeout_s": 9}))
        done = self.place.scb("run", "--policy", self.path, "-c", "print(6*7)")
        self.assertEqual((0, "42\n"), (done.returncode, done.stdout), done)

    def test_mounts(self):
        """folders by real path and whole names; one that is forbidden later is not used any more"""
        work, evil = self.place.folder("work"), self.place.folder("work-evil")
        self.place.file(os.path.join(work, "f"), b"in")
        os.symlink(evil, os.path.join(work, "link"))
        os.chmod(work, 0o755)  # also for a root broker's sandboxes
        rules = policy(mounts=[{"path": work, "name": "w"}])
        self.serve(rules, "--mount", f"w={evil}")
        for tool in (("run_command", {"command": "true"}), ("session", {"action": "open"})):
            self.assertRefused(self.client.tool(tool[0], **tool[1]), "policy_denied", "mounts", evil)
        self.client.close()
        self.serve(rules, "--mount", f"w={work}/link")  # leads out
        self.assertRefused(self.client.tool("run_command", command="true"), "policy_denied", evil)
        self.client.close()
        self.serve(rules, "--mount", f"x={work}")  # another name
        self.assertRefused(self.client.tool("run_command", command="true"), "policy_denied", f"x={work}")
        self.client.close()
        denied = self.events("policy.decision")
        self.assertEqual(4, len(denied), denied)
        self.assertEqual({("mounts", "deny")},
                         {(e["policyDecisions"][0]["rule"], e["policyDecisions"][0]["decision"]) for e in denied})
        if PROVIDER != "bubblewrap":
            return
        c = self.serve(rules, "--mount", f"w={work}")
        r = c.tool("run_command", command="cat /mnt/w/f")
        self.assertEqual("in", r.stdout)
        self.write(policy(mounts=[]))
        self.reloaded(1)
        self.assertRefused(c.tool("run_command", command="cat /mnt/w/f", session=r.session), "policy_denied", "mounts")
        self.assertRefused(c.tool("job", action="list", session=r.session), "policy_denied", "mounts")
        self.assertFalse(c.tool("session", action="close", session=r.session).is_error)

    def test_outputs_and_images(self):
        """quota, size, kind of presented files; figures; what may not leave is not read either"""
        c = self.serve(policy(outputs={"allow": True, "maxBytes": "1M", "quota": "2M"}, tools={"allow": ALL}))
        c.tool("run_command", command="echo hello >a.txt; printf '#!/bin/sh\\n' >s.sh; chmod +x s.sh; "
                                      "head -c 1500000 /dev/zero >big; for i in 1 2 3; do head -c 1000000 /dev/zero >m$i; done")
        good = c.tool("present_output", path="a.txt")
        self.assertFalse(good.is_error, good.text)
        self.assertRefused(c.tool("present_output", path="s.sh"), "outputs.executable")
        self.assertRefused(c.tool("present_output", path="big"), "limit_reached", "1.0 MB")
        self.assertFalse(c.tool("present_output", path="m1").is_error)
        self.assertFalse(c.tool("present_output", path="m2").is_error)
        self.assertRefused(c.tool("present_output", path="m3"), "limit_reached")
        figure = ("import zlib, struct\n"
                  "def chunk(k, d): return struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))\n"
                  "p = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0)) + "
                  "chunk(b'IDAT', zlib.compress(b'\\0\\0')) + chunk(b'IEND', b'')\n"
                  "class P:\n def _repr_png_(self): return p\nP()")
        r = c.tool("run_code", code=figure)
        self.assertEqual([], r.images)
        self.assertIn(good.uri, json.dumps(c.request("resources/list").result()))
        self.write(policy())
        self.reloaded(1)
        self.assertRefused(c.tool("present_output", path="a.txt"), "outputs")
        self.assertIn("outputs", json.dumps(c.request("resources/list").error()))
        self.assertIn("outputs", json.dumps(c.request("resources/read", {"uri": good.uri}).error()))
        self.assertEqual(["outputs"] * 2, [e["policyDecisions"][0]["rule"] for e in self.events("policy.decision")])
        r = c.tool("run_code", code=figure)
        self.assertEqual(1, len(r.images), str(r))

    def test_require(self):
        """what no sandbox here can be held to: the start is refused, and after a reload every call"""
        self.write(policy(require={"isolationLevel": "microvm"}))
        for solo in ((), ("--solo",)):
            done = self.place.scb("serve", "--policy", self.path, *solo)
            self.assertEqual(77, done.returncode, done)
            self.assertIn("requires isolation microvm", done.stderr)
        c = self.serve(policy())
        r = c.tool("run_command", command="true")
        self.assertDone(r)
        # on a busy machine a broker may be told of its first file once more
        before = len(self.events("policy.reload"))
        missing = ["egress"] if PROVIDER == "local" else None
        self.write(policy(require={"enforced": missing} if missing else {"isolationLevel": "microvm"}))
        self.reloaded(before + 1)
        self.assertRefused(c.tool("run_command", command="true"), "policy_denied", "require.")
        self.assertRefused(c.tool("session", action="open"), "policy_denied", "require.")
        self.write(policy(require={"isolationLevel": "subprocess", "enforced": ["killTree"]}))
        self.reloaded(before + 2)
        self.assertDone(c.tool("run_command", command="true"))

    def test_rate(self):
        """a call too many says when to try again; that there were some is on record once, each of them is not"""
        c = self.serve(policy(rate={"callsPerMinute": 60, "burst": 4}))
        begin = time.monotonic()
        answers = [c.tool("session", action="list") for _ in range(60)]
        took = time.monotonic() - begin
        refused = [r for r in answers if r.is_error]
        self.assertGreaterEqual(len(refused), 60 - 4 - int(took) - 1)
        self.assertLessEqual(len(answers) - len(refused), 4 + int(took) + 1)
        self.assertRefused(refused[0], "limit_reached", "rate", "Try again in 1 s")
        lines = self.events("rate.limited")
        self.assertTrue(1 <= len(lines) <= 1 + took / 10, lines)
        self.assertEqual(len(answers) - len(refused), len(self.events("tool.call")))
        self.assertEqual(len(answers) - len(refused), len(self.events("tool.end")))
        time.sleep(1.1)
        self.assertFalse(c.tool("session", action="list").is_error)

    def test_principals(self):
        """this user by name: its own rules; not named: nothing"""
        name = f"uid:{self.place.uid}"
        c = self.serve(policy(principals={name: {"tools": {"allow": ["session.list"]}, "limits": {"sessions_principal": 1}}}))
        self.assertFalse(c.tool("session", action="list").is_error)
        self.assertRefused(c.tool("session", action="open"), f'principals."{name}".tools.allow')
        self.write(policy(principals={"uid:4294967294": {}}))
        self.reloaded(1)
        self.assertRefused(c.tool("session", action="list"), "rule: principals")
        self.assertIn("principals", json.dumps(c.request("resources/list").error()))

    def test_conflict(self):
        """two hosts, two files: the second is told; the same file by another name is no conflict"""
        self.serve(policy())
        other = os.path.join(self.place.home, "other.json")
        self.write(policy(), other)
        done = self.place.scb("serve", "--policy", other)
        self.assertEqual(65, done.returncode, done)
        self.assertIn(other, done.stderr)
        link = os.path.join(self.place.home, "link.json")
        os.symlink(self.path, link)
        second = self.place.serve("--policy", link)
        second.initialize()
        self.assertFalse(second.tool("session", action="list").is_error)
        second.close()


class Reload(PolicyCase):
    """the file changes while the broker runs"""

    A = {"version": 1, "tools": {"allow": ["files"]}}
    B = {"version": 1, "tools": {"allow": ["session", "run_command"]}}

    def state(self):
        """Which of the two holds now."""
        a = not self.client.tool("files", action="list", path=".").is_error
        b = not self.client.tool("session", action="list").is_error
        self.assertNotEqual(a, b)
        return "A" if a else "B"

    def test_each_way_to_change_it(self):
        """renamed over, written in place, a link turned, broken, gone, there again, SIGHUP"""
        self.serve(self.A)
        self.assertEqual("A", self.state())
        self.write(self.B)
        line = self.reloaded(1)
        self.assertIn("generation 2", line["detail"])
        self.assertEqual("B", self.state())
        with open(self.path, "w", encoding="utf-8") as f:  # in place
            json.dump(self.A, f)
        self.reloaded(2)
        self.assertEqual("A", self.state())

        self.write('{"version": 1,\n "tools": {"allow": ["session", "x"]}}')
        line = self.reloaded(3, ok=False)
        self.assertIn(f"{self.path}:2:33: tools.allow[1]", line["detail"])
        self.assertEqual("A", self.state())
        os.unlink(self.path)
        self.assertIn("No such file", self.reloaded(4, ok=False)["detail"])
        self.assertEqual("A", self.state())

        one, two = (os.path.join(self.place.folder("rules"), n) for n in ("one.json", "two.json"))
        self.write(self.B, one)
        self.write(self.A, two)
        os.symlink(one, self.path)
        self.reloaded(5)
        self.assertEqual("B", self.state())
        os.symlink(two, self.path + ".link")
        os.rename(self.path + ".link", self.path)
        self.reloaded(6)
        self.assertEqual("A", self.state())
        self.write(self.B, two)  # behind the link
        self.reloaded(7)
        self.assertEqual("B", self.state())
        os.chmod(two, 0o666)
        self.assertIn("writable by others", self.reloaded(8, ok=False)["detail"])
        os.chmod(two, 0o600)
        os.kill(self.place.broker(), signal.SIGHUP)
        time.sleep(0.5)
        self.assertEqual("B", self.state())
        self.assertEqual(8, len(self.events("policy.reload")))

    def test_solo(self):
        """a process without a broker reads it again, too, and ends as it does otherwise"""
        c = self.serve(self.A, "--solo")
        self.assertEqual("A", self.state())
        self.write(self.B)
        self.reloaded(1)
        self.assertEqual("B", self.state())
        self.write(self.A)
        os.kill(c.pid, signal.SIGHUP)
        self.reloaded(2)
        self.assertEqual("A", self.state())
        c.close()
        self.assertEqual(0, c.proc.returncode)

    def test_own_file_appears(self):
        """the user's own file holds from when it is there, and its going is no permission"""
        config = os.path.join(self.place.top, "config")
        self.serve(None, XDG_CONFIG_HOME=config)
        self.assertFalse(self.client.tool("session", action="list").is_error)
        self.place.folder("config", "scb")
        time.sleep(0.3)
        own = os.path.join(config, "scb", "policy.json")
        self.write(self.A, own)
        self.reloaded(1)
        self.assertEqual("A", self.state())
        os.unlink(own)
        self.reloaded(2, ok=False)
        self.assertEqual("A", self.state())

    def test_under_load(self):
        """changed all the time while calls run: each is decided once, by one file, and all are answered"""
        self.serve({**self.A, "rate": {"callsPerMinute": 1000000, "burst": 100000}})
        stop = threading.Event()
        broken = '{"version": 1, "tools": {"allow": ["sess'

        def change():
            n = 0
            while not stop.is_set():
                n += 1
                self.write([self.B, broken, self.A][n % 3])
                os.kill(self.place.broker(), signal.SIGHUP)
                time.sleep(0.005)

        thread = threading.Thread(target=change)
        thread.start()
        answers = []
        try:
            end = time.monotonic() + 4
            while time.monotonic() < end:
                some = [self.client.start(tool, action="list", **more)
                        for tool, more in (("files", {"path": "."}), ("session", {})) * 2]
                answers += [self.client.finish(s) for s in some]
        finally:
            stop.set()
            thread.join()
        good = [r for r in answers if not r.is_error]
        for r in answers:
            if r.is_error:
                self.assertRefused(r, "policy_denied", "tools.allow")
        self.assertGreater(len(good), len(answers) // 10)
        self.assertLess(len(good), len(answers) * 9 // 10)
        calls = {e["delivery"]: e["policyDecisions"] for e in self.events("tool.call")}
        self.assertEqual(len(answers), len(calls))
        self.assertTrue(all(len(d) == 1 for d in calls.values()))
        reloads = self.events("policy.reload")
        self.assertTrue(any("failed" in e["detail"] for e in reloads))
        generations = [int(e["detail"].split()[1].rstrip(":")) for e in reloads if e["detail"].endswith("in force")]
        self.assertEqual(sorted(set(generations)), generations)
        self.assertGreater(len(generations), 50)


if __name__ == "__main__":
    harness.main()
