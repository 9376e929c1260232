#!/usr/bin/python3
"""Secrets: from where the policy says into the sandbox's variables, and into nothing else."""
import json
import os
import shutil
import signal
import time
import unittest

import harness
from harness import until

ENV_VALUE = "hunter2-from-the-environment"
FILE_VALUE = "hunter2-from-a-file/with+signs"
EXEC_VALUE = "hunter2 from a program"
PLACEHOLDER_VALUE = "hunter2-never-inside"
VALUES = (ENV_VALUE, FILE_VALUE, EXEC_VALUE, PLACEHOLDER_VALUE)
LENGTH = "python3 -c 'import os; print([len(os.environ.get(n, \"\")) for n in (\"ENV_TOKEN\", \"FILE_TOKEN\", \"EXEC_TOKEN\")])'"
LENGTHS = [len(ENV_VALUE), len(FILE_VALUE), len(EXEC_VALUE)]


def spelled(value):
    """Code that compares a variable with a value that does not stand in it."""
    return [ord(c) for c in value]


def is_value(variable, value):
    return f"import os; [ord(c) for c in os.environ.get('{variable}', '')] == {spelled(value)}"


class Secrets(unittest.TestCase):
    def setUp(self):
        self.place = harness.Place()
        self.clients = []
        self.file = self.place.file(os.path.join(self.place.home, "token"), FILE_VALUE.encode() + b"\n")
        os.chmod(self.file, 0o600)
        self.program = os.path.join(self.place.home, "print-token")
        self.script("echo 'hunter2 '\"from a program\"")
        self.policy_path = os.path.join(self.place.home, "policy.json")
        self.policy(self.all_secrets())

    def tearDown(self):
        for c in self.clients:
            if c.alive():
                c.close()
        self.place.end()
        for c in self.clients:
            self.assertEqual([], c.faults)
        if not until(lambda: not self.place.leftovers(), 2):
            self.place.serve("--solo").close()
        self.assertEqual([], self.place.leftovers())
        shutil.rmtree(self.place.top, True)

    def explain(self):
        log = os.path.join(self.place.state, "scb", "broker.log")
        text = "".join(c.explain() for c in self.clients)
        return text + (open(log).read()[-3000:] if os.path.exists(log) else "")

    # -- what there is

    def script(self, body):
        self.place.file(self.program, f"#!/bin/sh\n{body}\n".encode())
        os.chmod(self.program, 0o700)

    def all_secrets(self):
        return {
            "env-token": {"source": "env:HOST_TOKEN", "exposure": "session", "variable": "ENV_TOKEN"},
            "file-token": {"source": "file:" + self.file, "exposure": "session", "variable": "FILE_TOKEN"},
            "exec-token": {"exec": [self.program], "exposure": "session", "variable": "EXEC_TOKEN"},
            "held-back": {"source": "env:HOST_HELD", "variable": "HELD_TOKEN"},
        }

    def policy(self, secrets):
        tools = ["run_code", "run_command", "job", "files", "present_output", "session"]
        text = json.dumps({"version": 1, "tools": {"allow": tools}, "secrets": secrets,
                           "outputs": {"allow": True}})
        self.place.file(self.policy_path + ".new", text.encode())
        os.chmod(self.policy_path + ".new", 0o600)
        os.rename(self.policy_path + ".new", self.policy_path)

    def serve(self, *arguments, **env):
        env = {"HOST_TOKEN": ENV_VALUE, "HOST_HELD": PLACEHOLDER_VALUE, **env}
        c = self.place.serve("--policy", self.policy_path, *arguments, **env)
        self.clients.append(c)
        c.initialize()
        return c

    def lengths(self, c, **arguments):
        r = c.tool("run_command", command=LENGTH, **arguments)
        self.assertFalse(r.is_error, str(r))
        return json.loads(r.stdout)

    def assertAll(self, c, **arguments):
        """All three variables, in a command and in a kernel."""
        self.assertEqual(LENGTHS, self.lengths(c, **arguments))
        for variable, value in (("ENV_TOKEN", ENV_VALUE), ("FILE_TOKEN", FILE_VALUE), ("EXEC_TOKEN", EXEC_VALUE)):
            r = c.tool("run_code", language="python", code=is_value(variable, value), **arguments)
            self.assertEqual("True", r.results[0]["mime"]["text/plain"], str(r))

    def unavailable(self, r):
        self.assertTrue(r.is_error, str(r))
        self.assertIn("secret_unavailable", r.text)

    # -- given

    def test_given(self):
        c = self.serve()
        self.assertAll(c)
        r = c.tool("run_code", language="shell", code="echo ${#ENV_TOKEN} ${#FILE_TOKEN} ${#EXEC_TOKEN}")
        self.assertEqual(" ".join(map(str, LENGTHS)), r.stdout.strip())
        # what is printed of them is masked, and what stands for one is no value
        r = c.tool("run_command", command="echo \"<$ENV_TOKEN><$FILE_TOKEN><$EXEC_TOKEN>\"")
        self.assertEqual("".join("<" + "*" * n + ">" for n in LENGTHS), r.stdout.strip())
        r = c.tool("run_command", command="echo $HELD_TOKEN")
        self.assertRegex(r.stdout, "^scb-placeholder-held-back-[0-9a-f]{32}\n$")
        # a model may set it otherwise for a command of its own
        r = c.tool("run_command", command="echo $ENV_TOKEN", env={"ENV_TOKEN": "other"})
        self.assertEqual("other\n", r.stdout)
        r = c.tool("session", action="info")
        self.assertEqual([("env-token", "ENV_TOKEN", "session"), ("exec-token", "EXEC_TOKEN", "session"),
                          ("file-token", "FILE_TOKEN", "session"), ("held-back", "HELD_TOKEN", "placeholder")],
                         sorted((s["name"], s["variable"], s["exposure"]) for s in r.data["secrets"]))
        provided = [e["detail"] for e in self.place.audit() if e["event"] == "secret.provide"]
        self.assertEqual(4, len(provided))
        self.assertIn("env-token as ENV_TOKEN (session)", provided)
        self.assertEqual([], [e for e in self.place.audit() if e["event"] == "secret.refused"])

    def pooled(self):
        """The sandboxes that are kept ready."""
        names = os.listdir(os.path.join(self.place.state, "scb", "store"))
        return [name[len("pool."):] for name in names if name.startswith("pool.")]

    def test_kernel_kept_ready(self):
        """A sandbox of the pool, and its kernel, began before they were anybody's."""
        c = self.serve("--limit", "pool=1")
        self.assertAll(c)
        for _ in range(2):
            self.assertTrue(until(self.pooled, 20), "no sandbox is kept ready")
            ready = self.pooled()
            time.sleep(1)  # and its kernel
            handle = c.tool("session", action="open").session
            opened = [e for e in self.place.audit() if e["event"] == "session.open"][-1]
            self.assertIn(opened["sandboxId"], ready)
            self.assertAll(c, session=handle)
            # a twin has them, and so has a kernel that is started anew
            r = c.tool("session", action="fork", session=handle, name="twin")
            self.assertFalse(r.is_error, str(r))
            r = c.tool("run_code", session=handle, kernel="twin", code=is_value("ENV_TOKEN", ENV_VALUE))
            self.assertEqual("True", r.results[0]["mime"]["text/plain"], str(r))
            c.tool("session", action="restart", session=handle)
            self.assertAll(c, session=handle)
            c.tool("session", action="close", session=handle)

    def test_solo_and_run(self):
        c = self.serve("--solo")
        self.assertAll(c)
        c.close()
        code = f"import os; print([ord(c) for c in os.environ.get('ENV_TOKEN', '')] == {spelled(ENV_VALUE)})"
        done = self.place.scb("run", "--policy", self.policy_path, "-c", code, HOST_TOKEN=ENV_VALUE)
        self.assertEqual((0, "True\n"), (done.returncode, done.stdout), done.stderr)

    # -- not available

    def test_not_available(self):
        """The connection goes on, and what would need the secret says so."""
        os.chmod(self.file, 0o644)
        self.script("echo hunter2 out of luck; echo and here on stderr >&2; exit 7")
        c = self.serve(HOST_TOKEN="short", HOST_HELD=None)
        r = c.tool("run_command", command="echo \"<$ENV_TOKEN$FILE_TOKEN$EXEC_TOKEN$HELD_TOKEN>\"")
        self.assertEqual("<>\n", r.stdout, str(r))
        for words in ("\"env-token\"", "fewer than 8 characters", "\"file-token\"", "chmod 600", "\"exec-token\"",
                      "status 7", "\"held-back\"", "HOST_HELD is not set"):
            self.assertIn(words, r.text)
        self.assertNotIn("out of luck", r.text)
        self.assertNotIn("stderr", r.text)
        refused = [e["detail"] for e in self.place.audit() if e["event"] == "secret.refused"]
        self.assertEqual(4, len(refused))
        r = c.tool("run_command", command="true")
        self.assertNotIn("Note:", r.text)

    def test_slow_program(self):
        """A first call waits for it, what needs no sandbox does not."""
        self.script("sleep 2; echo 'hunter2 '\"from a program\"")
        began = time.monotonic()
        c = self.serve()
        c.request("tools/list").result()
        self.assertLess(time.monotonic() - began, 1.5 * harness.SLOW)
        cancelled = c.request("tools/call", {"name": "run_command", "arguments": {"command": "touch began"}})
        c.notify("notifications/cancelled", {"requestId": cancelled.id})
        self.assertAll(c)
        self.assertGreater(time.monotonic() - began, 2)
        self.assertEqual("", c.tool("run_command", command="ls").stdout)

    # -- how long

    def test_broker_killed(self):
        """The next one knows names only, until a front has told it the values again."""
        c = self.serve()
        self.assertAll(c)
        handle = c.tool("session", action="info").session
        other = c.tool("session", action="open").session
        for i in range(2):
            os.kill(c.server(), signal.SIGKILL)
            self.assertAll(c, session=handle)
            r = c.tool("run_command", command="echo $EXEC_TOKEN", session=other)
            self.assertEqual("*" * len(EXEC_VALUE) + "\n", r.stdout)

    def test_broker_killed_without_front(self):
        c = self.serve()
        self.assertAll(c)
        handle = c.tool("session", action="info").session
        c.tool("run_command", command="echo $ENV_TOKEN > kept", session=handle)
        os.kill(c.server(), signal.SIGKILL)
        os.kill(c.proc.pid, signal.SIGKILL)
        c.proc.wait()
        self.clients.remove(c)
        # a host that has no such variable
        c = self.serve(HOST_TOKEN=None)
        for call in ({"name": "run_command", "arguments": {"command": "cat kept", "session": handle}},
                     {"name": "files", "arguments": {"action": "read", "path": "kept", "session": handle}},
                     {"name": "job", "arguments": {"action": "list", "session": handle}},
                     {"name": "session", "arguments": {"action": "info", "session": handle}}):
            self.unavailable(c.tool(call["name"], **call["arguments"]))
        # a session of its own works, and one comes that knows it
        self.assertEqual([0] + LENGTHS[1:], self.lengths(c))
        d = self.serve()
        r = d.tool("files", action="read", path="kept", session=handle)
        self.assertEqual("*" * len(ENV_VALUE), r.data["text"].strip(), str(r))
        self.assertAll(d, session=handle)
        # the value outlives the front that gave it with the session that has it
        d.close()
        r = c.tool("files", action="read", path="kept", session=handle)
        self.assertEqual("*" * len(ENV_VALUE), r.data["text"].strip(), str(r))

    def test_broker_killed_and_another_value(self):
        c = self.serve()
        self.assertAll(c)
        handle = c.tool("session", action="info").session
        c.tool("run_command", command="echo $ENV_TOKEN > kept", session=handle)
        os.kill(c.server(), signal.SIGKILL)
        os.kill(c.proc.pid, signal.SIGKILL)
        c.proc.wait()
        self.clients.remove(c)
        c = self.serve(HOST_TOKEN="changed meanwhile by someone")
        r = c.tool("files", action="read", path="kept", session=handle)
        self.unavailable(r)
        self.assertIn("another value", r.text)
        self.assertFalse(c.tool("session", action="close", session=handle).is_error)

    def test_two_fronts(self):
        """Of two values of one name the later front's goes to new sessions; both are masked."""
        second = "hunter2-of-the-second-front"
        c, d = self.serve(), self.serve(HOST_TOKEN=second)
        d.tool("session", action="list")  # it has given what it has by then
        a = c.tool("session", action="open").session
        self.assertEqual([len(second)] + LENGTHS[1:], self.lengths(c, session=a))
        for text in (ENV_VALUE, second):
            r = c.tool("run_code", session=a, code=f"print(''.join(map(chr, {spelled(text)})))")
            self.assertEqual("*" * len(text) + "\n", r.stdout)
        d.close()
        b = c.tool("session", action="open").session
        self.assertEqual(LENGTHS, self.lengths(c, session=b))
        # a still has the value of the front that has gone
        r = c.tool("run_command", session=a, command="echo $ENV_TOKEN")
        self.assertEqual("*" * len(second) + "\n", r.stdout)
        r = c.tool("run_code", session=b, code=f"print(''.join(map(chr, {spelled(second)})))")
        self.assertEqual("*" * len(second) + "\n", r.stdout)
        c.tool("session", action="close", session=a)
        r = c.tool("run_code", session=b, code=f"print(''.join(map(chr, {spelled(second)})))")
        self.assertEqual(second + "\n", r.stdout, "nobody holds it any more")

    def reload(self, secrets):
        def count():
            return sum(e["event"] == "policy.reload" for e in self.place.audit())
        before = count()
        self.policy(secrets)
        self.assertTrue(until(lambda: count() > before, 10))
        time.sleep(0.5)  # the program has run again

    def test_reload(self):
        c = self.serve()
        a = c.tool("session", action="open").session
        self.assertAll(c, session=a)
        secrets = self.all_secrets()
        del secrets["env-token"]
        secrets["late"] = {"source": "env:HOST_LATE", "exposure": "session"}
        secrets["late"]["variable"] = "LATE_TOKEN"
        self.script("echo a newer one")
        self.reload(secrets)
        b = c.tool("session", action="open").session
        self.assertEqual([0, len(FILE_VALUE), len("a newer one")], self.lengths(c, session=b))
        self.assertAll(c, session=a)
        self.reload({})
        d = c.tool("session", action="open").session
        self.assertEqual([0, 0, 0], self.lengths(c, session=d))
        self.reload(self.all_secrets())  # the variable has been read, and is still known
        e = c.tool("session", action="open").session
        self.assertEqual(len(ENV_VALUE), self.lengths(c, session=e)[0])

    # -- nowhere else

    def everywhere(self, inside):
        """(place, bytes) of all that a value could have got into; inside: processes of sandboxes."""
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            for name in ("cmdline", "environ"):
                if name == "environ" and int(entry) in inside:
                    continue  # code of the sandbox has it there
                try:
                    with open(f"/proc/{entry}/{name}", "rb") as f:
                        yield f"/proc/{entry}/{name} ({harness.command_line(entry)})", f.read()
                except OSError:
                    pass
        for top in (self.place.state, self.place.run, self.place.home):
            for where, dirs, names in os.walk(top):
                for name in names:
                    path = os.path.join(where, name)
                    if os.path.isfile(path) and path not in (self.file, self.program):
                        with open(path, "rb") as f:
                            yield path, f.read()

    def test_nowhere_else(self):
        c = self.serve("--limit", "pool=1", "--log-level", "debug")
        self.assertAll(c)
        answers = [c.tool("run_command", command="env; cat /proc/self/environ; echo $ENV_TOKEN >&2; sleep 0.1"),
                   c.tool("run_code", language="python", code="import os; dict(os.environ)"),
                   c.tool("run_code", language="python", code="import os; raise ValueError(os.environ['ENV_TOKEN'])"),
                   c.tool("run_command", command="\"$ENV_TOKEN\""),
                   c.tool("session", action="info")]
        c.tool("run_command", command="sleep 30", wait_s=0)  # with the variable, while it is looked for
        for r in answers:
            for value in VALUES:
                self.assertNotIn(value, json.dumps(r.message if hasattr(r, "message") else [r.text, r.data]))
        self.assertTrue(until(lambda: any(harness.command_line(p) == "sleep 30"
                                          for p in harness.descendants(c.server())), 10))
        inside = set(harness.descendants(c.server()))
        os.kill(c.server(), signal.SIGKILL)
        self.assertAll(c)
        inside |= set(harness.descendants(c.server()))
        found = [where for where, data in self.everywhere(inside) if any(v.encode() in data for v in VALUES)]
        self.assertEqual([], found)
        # neither broker nor front can be dumped or looked into
        for pid in (c.server(), c.proc.pid):
            with open(f"/proc/{pid}/limits") as f:
                core = next(line for line in f if line.startswith("Max core file size"))
            self.assertIn(core.split()[4], ("0", "1"))
            if not self.place.prefix:
                continue
            look = harness.subprocess.run([*self.place.prefix, "cat", f"/proc/{pid}/environ"], capture_output=True)
            self.assertNotEqual(0, look.returncode, "its own user can look into it")


if __name__ == "__main__":
    harness.main()
