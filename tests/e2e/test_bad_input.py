#!/usr/bin/python3
"""Bad input: each fault gets a clear answer, and the broker goes on."""
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import unittest

import harness
from harness import Case, until

MIB = 1 << 20


@contextlib.contextmanager
def changed_bin(test, change):
    """A Place whose broker sees another /usr/bin: an overlay, in a mount namespace of its own, on
    which the shell text `change` was run."""
    if os.geteuid() != 0:
        test.skipTest("only root can change /usr/bin for one process")
    place = harness.Place()
    scratch = place.folder("overlay")
    for name in ("up", "work"):
        os.chmod(place.folder("overlay", name), 0o755)
    place.prefix = [*harness.ELSEWHERE, "bin", scratch, change, *place.prefix]
    try:
        yield place
    finally:
        shutil.rmtree(place.top, True)


class Lines(Case):
    """Bytes that are no JSON-RPC."""

    def alive(self):
        self.assertEqual({}, self.client.request("ping").result(10))

    def parse_error(self, data, timeout=5):
        """Sends it; the answers are errors, without an id where none could be known."""
        before = len(self.client.unmatched)
        self.client.raw(data)
        self.alive()
        for message in self.client.unmatched[before:]:
            self.assertIn("id", message)
            self.assertIn(message["error"]["code"], (-32700, -32600), message)
            self.assertTrue(message["error"]["message"])
        return self.client.unmatched[before:]

    def test_broken(self):
        """broken JSON"""
        for text in (b"{", b"}", b"nonsense", b'{"jsonrpc":"2.0","id":1,"method":"ping"', b"\xff\xfe\x00", b"[1,2",
                     b'{"jsonrpc":"2.0",}', b"Content-Length: 20", b'"ping"', b"null", b"17", b"\x00"):
            with self.subTest(text=text):
                self.assertEqual(1, len(self.parse_error(text + b"\n")))

    def test_not_rpc(self):
        """JSON that is no request"""
        for text in (b"[]", b"{}", b'{"jsonrpc":"1.0","id":1,"method":"ping"}', b'{"id":1,"method":"ping"}',
                     b'{"jsonrpc":"2.0","id":1,"method":7}', b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
                     b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
                     b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]'):
            with self.subTest(text=text):
                before = len(self.client.unmatched)
                self.client.raw(text + b"\n")
                self.alive()
                answers = self.client.unmatched[before:]
                self.assertEqual(1, len(answers), answers)
                self.assertEqual(-32600, answers[0]["error"]["code"])

    def test_empty_and_crlf(self):
        """empty lines are passed over; CRLF ends a line as LF does"""
        before = len(self.client.unmatched)
        self.client.raw(b"\n\r\n\n")
        call = self.client.expect("crlf")
        self.client.raw(b'{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r\n')
        self.assertEqual({}, call.result(5))
        self.assertEqual(before, len(self.client.unmatched))

    def test_split(self):
        """a line that comes byte by byte; two lines in one write"""
        call = self.client.expect("split")
        for byte in '{"jsonrpc":"2.0","id":"split","method":"ping","params":{"é":1}}\n'.encode():
            self.client.raw(bytes([byte]))
        self.assertEqual({}, call.result(5))
        calls = [self.client.expect(f"two-{i}") for i in range(2)]
        self.client.raw(b"".join(b'{"jsonrpc":"2.0","id":"two-%d","method":"ping"}\n' % i for i in range(2)))
        for call in calls:
            self.assertEqual({}, call.result(5))

    def test_long_line(self):
        """a line of nearly 10 MiB is taken"""
        data = "x" * (10 * MIB - 400)
        call = self.client.expect("long")
        line = json.dumps({"jsonrpc": "2.0", "id": "long", "method": "ping", "params": {"x": data}}).encode()
        self.assertLess(len(line), 10 * MIB)
        self.client.raw(line + b"\n")
        self.assertEqual({}, call.result(10))

    def test_too_long_line(self):
        """a longer line is refused, and costs no memory; the next line is served"""
        before = self.client.rss()
        answers = self.parse_error(b'{"jsonrpc":"2.0","id":"huge","method":"ping","params":"' + b"x" * (40 * MIB) + b'"}\n')
        self.assertEqual(1, len(answers))
        self.assertIn("10", answers[0]["error"]["message"])
        if not harness.SANITIZED:
            self.assertLess(self.client.rss() - before, 24 * MIB)

    def test_deep(self):
        """deep nesting"""
        for depth in (65, 3000, 200_000):
            for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
                text = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + opening * depth + b"1" + closing * depth + b"}}\n"
                self.assertEqual(1, len(self.parse_error(text)), (depth, opening))

    def test_duplicate_keys(self):
        """duplicate keys, at the top and below"""
        for text in (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
                     b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"a","command":"b"}}}'):
            self.assertEqual(1, len(self.parse_error(text + b"\n")))

    def test_unicode(self):
        """invalid UTF-8, lone surrogates and NUL in text are refused or carried, never broken"""
        self.assertEqual(1, len(self.parse_error(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xc3\x28"}}\n')))
        for text in (b"\\ud800", b"\\u0000"):
            line = b'{"jsonrpc":"2.0","id":"u","method":"tools/call","params":{"name":"run_command","arguments":{"command":"echo ' + text + b'"}}}\n'
            call = self.client.expect("u")
            before = len(self.client.unmatched)
            self.client.raw(line)
            self.assertTrue(until(lambda: call.done.is_set() or len(self.client.unmatched) > before, 5))
            with self.client.lock:
                self.client.calls.pop("u", None)
            if call.done.is_set() and "result" in call.message:
                self.assertTrue(call.message["result"].get("isError"), call.message)

    def test_answers_to_nothing(self):
        """answers from the client (there were no requests) are passed over"""
        before = len(self.client.unmatched)
        self.client.raw(b'{"jsonrpc":"2.0","id":99,"result":{}}\n{"jsonrpc":"2.0","id":98,"error":{"code":1,"message":"x"}}\n')
        self.alive()
        self.assertEqual(before, len(self.client.unmatched))

    def test_unknown_method(self):
        """unknown methods and params that are no object"""
        self.assertEqual(-32601, self.client.request("no/such/method").error(5)["code"])
        self.assertIn(self.client.request("tools/call", [1]).error(5)["code"], (-32600, -32602))
        self.assertEqual(-32602, self.client.request("tools/call").error(5)["code"])
        self.assertEqual(-32602, self.client.request("tools/call", {"name": 7}).error(5)["code"])
        self.assertEqual(-32602, self.client.request("resources/read", {}).error(5)["code"])
        self.assertEqual(-32602, self.client.request("initialize", {}).error(5)["code"])

    def test_flood(self):
        """two thousand requests at once: each is answered"""
        calls = [self.client.request("ping") for _ in range(2000)]
        for call in calls:
            self.assertEqual({}, call.result(20))

    def test_answers_unread(self):
        """a client that asks and does not read is not read from either, and nothing is lost"""
        broker = subprocess.Popen(self.place.command("serve"), env=self.place.environment(), cwd=self.place.home,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            params = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "t", "version": "1"}, "capabilities": {}}
            text = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}) + "\n"
            text += "".join('{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % i for i in range(1, 20001))
            data, sent, out = text.encode(), 0, broker.stdin.fileno()
            os.set_blocking(out, False)
            while select.select([], [out], [], 2)[1] and sent < len(data):
                sent += os.write(out, data[sent:])
            self.assertLess(sent, len(data))  # their answers would be 200 MB
            if not harness.SANITIZED:  # which keeps what was freed
                self.assertLess(harness.memory(broker.pid), 48 << 20)
            asked = data[:sent].count(b"\n")
            answers = (json.loads(line) for line in broker.stdout)
            self.assertEqual(list(range(asked)), [a["id"] for a in itertools.islice(answers, asked)])
        finally:
            broker.kill()
            broker.communicate()


class Arguments(Case):
    """Calls that a model gets wrong."""

    def bad(self, tool, arguments, *words):
        r = self.client.finish(self.client.request("tools/call", {"name": tool, "arguments": arguments}))
        with self.subTest(tool=tool, arguments=str(arguments)[:200]):
            self.assertRefused(r, *words)

    def test_unknown_tool(self):
        """an unknown tool is a protocol error that names it"""
        error = self.client.request("tools/call", {"name": "run_everything", "arguments": {}}).error(5)
        self.assertEqual(-32602, error["code"])
        self.assertIn("run_everything", error["message"])

    def test_echoes(self):
        """what is quoted of a request does nothing to a terminal"""
        bad = "x\x1b[2J\n\u009b31m\u202e" + "é" * 60
        params = {"name": bad, "arguments": {}}
        said = [self.client.request("tools/call", params).error(5)["message"]]
        for tool, arguments in (("job", {"action": bad}), ("session", {bad: 1}), ("run_code", {"code": "1", "language": bad[:20]}),
                                ("run_command", {"command": "true", "env": {bad + "=": "1"}}),
                                ("run_command", {"command": "true", "cwd": "/" + bad}),
                                ("job", {"action": "wait", "job": bad}), ("session", {"action": "restart", "kernel": bad[:20]})):
            r = self.client.tool(tool, **arguments)
            self.assertTrue(r.is_error, r.text)
            said.append(r.text.split("\n", 1)[1] if r.text.startswith("session ") else r.text)
        for text in said:
            self.assertNotRegex(text, "[\x00-\x1f\x7f-\x9f\u202e]")

    def test_arguments(self):
        """wrong types, missing and unknown arguments: which one, and what is accepted"""
        self.bad("run_command", {"command": 7}, "command", "string")
        self.bad("run_command", {}, "command")
        self.bad("run_command", {"command": "true", "argv": ["true"]}, "command", "argv")
        self.bad("run_command", {"command": "true", "comand": "x"}, "comand")
        self.bad("run_command", {"command": "true", "timeout_s": "soon"}, "timeout_s")
        self.bad("run_command", {"command": "true", "timeout_s": -1}, "timeout_s")
        self.bad("run_command", {"command": "true", "timeout_s": 10**9}, "timeout_s", "3600")
        self.bad("run_command", {"command": "true", "wait_s": 51}, "wait_s", "50")
        self.bad("run_command", {"argv": []}, "argv")
        self.bad("run_command", {"argv": "ls -l"}, "argv")
        self.bad("run_command", {"argv": ["ls", 7]}, "argv")
        self.bad("run_command", {"command": "true", "env": {"A=B": "x"}}, "env")
        self.bad("run_command", {"command": "true", "env": {"A": 7}}, "env")
        self.bad("run_command", {"command": "true", "cwd": "no/such/folder"}, "no/such/folder", "no_such_file", "cwd")
        self.bad("run_command", {"command": "true", "cwd": "/nowhere"}, "/nowhere", "no_such_file", "cwd")
        self.bad("run_command", {"command": "true", "cwd": "/etc/passwd"}, "/etc/passwd", "cwd")
        self.bad("run_code", {"language": "python"}, "code")
        self.bad("run_code", {"language": "cobol", "code": "1"}, "cobol", "python")
        self.bad("run_code", {"language": "python", "code": None}, "code")
        self.bad("job", {"action": "wait"}, "job")
        self.bad("job", {"action": "explode", "job": "j-x"}, "action", "wait")
        self.bad("files", {"action": "read"}, "path")
        self.bad("files", {"action": "read", "path": 1}, "path")
        self.bad("present_output", {}, "path")
        self.bad("session", {}, "action")
        self.bad("session", {"action": "open", "colour": "red"}, "colour")

    def test_arguments_not_an_object(self):
        """arguments that are no object"""
        for value in ([], "x", 7, None):
            message = self.client.request("tools/call", {"name": "run_command", "arguments": value}).wait(5)
            if "result" in message:
                self.assertTrue(message["result"]["isError"], message)
            else:
                self.assertEqual(-32602, message["error"]["code"])

    def test_handles(self):
        """malformed, forged, foreign and closed handles: one and the same error"""
        s = self.client.tool("session", action="open").session
        self.client.tool("session", action="close", session=s)
        forged = s[:-1] + ("0" if s[-1] != "0" else "1")
        texts = set()
        for handle in (s, forged, "s-", "nonsense", "s-" + "0" * 32, "../../x"):
            r = self.sh("true", session=handle)
            self.assertRefused(r, "session", "open")
            texts.add(r.text.replace(handle, "H"))
        self.assertEqual(1, len(texts), texts)

    def test_foreign_handle(self):
        """a handle of another broker's session is unknown here"""
        other = self.place.serve(XDG_STATE_HOME=self.place.folder("home", "state2"))
        try:
            other.initialize()
            r = self.sh("true", session=other.tool("session", action="open").session)
            self.assertRefused(r, "session", "open")
        finally:
            other.close()

    def test_jobs(self):
        """unknown jobs"""
        for job in ("j-nonsense", "", "j-" + "0" * 32):
            for action in ("wait", "read"):
                self.assertRefused(self.client.tool("job", action=action, job=job), "job")

    def test_paths(self):
        """paths that lead out, in every action that takes one"""
        for path in ("../etc/passwd", "/etc/passwd", "a/../../etc/passwd", "/workspace/../etc/passwd", "/proc/self/environ",
                     "/mnt/none/x", "/mnt/../etc/passwd", "\0", "a\0b", "", "x" * 5000):
            for action, more in (("read", {}), ("stat", {}), ("write", {"content": "x"}), ("delete", {})):
                r = self.client.tool("files", action=action, path=path, **more)
                with self.subTest(path=path[:40], action=action):
                    self.assertRefused(r)

    def test_link_out(self):
        """a link that leads out is not followed"""
        self.assertDone(self.sh("ln -sf /etc/passwd /workspace/out 2>/dev/null || ln -sf /etc/passwd out; "
                                "ln -sfn / up; ln -sfn /proc/self/root root"))
        for path in ("out", "up/etc/passwd", "root/etc/passwd"):
            r = self.client.tool("files", action="read", path=path)
            self.assertRefused(r)
            self.assertNotIn("root:", r.text)
            if path != "out":
                self.assertRefused(self.client.tool("files", action="write", path=path, content="x"))

    def test_big_result(self):
        """nothing that is asked for makes a message beyond 900 KB"""
        self.py("open('big.txt','w').write('\\u0001' * 3_000_000)")
        for r in (self.py("print('\\x01' * 3_000_000)"), self.py("'\\x01' * 3_000_000"), self.sh("head -c 3000000 /dev/urandom"),
                  self.client.tool("files", action="read", path="big.txt", length=262144),
                  self.py("raise ValueError('\\x02' * 2_000_000)"),
                  self.py("for i in range(60): display({'text/plain': 'x' * 60_000}, raw=True)")):
            self.assertLess(len(json.dumps(r.result)), 900_000)
        self.assertEqual([], self.client.faults)

    def test_long_code(self):
        """long code runs"""
        r = self.py("x = '" + "y" * 200_000 + "'\nlen(x)")
        self.assertEqual("200000", r.results[0]["mime"]["text/plain"])

    def test_too_much_code(self):
        """code beyond the maximum is refused with the maximum"""
        for r in (self.py("#" + "y" * MIB), self.sh("#" + "y" * MIB)):
            self.assertRefused(r, ("code", "command"), "at most")

    def test_too_many_sessions(self):
        """the cap on sessions is said, with the remedy"""
        opened, refused = [], None
        for _ in range(12):
            r = self.client.tool("session", action="open")
            if r.is_error:
                refused = r
                break
            opened.append(r.session)
        try:
            self.assertIsNotNone(refused, "twelve sessions were opened")
            self.assertRefused(refused, "8", "close")
        finally:
            for s in opened:
                self.client.tool("session", action="close", session=s)


class Unusable(unittest.TestCase):
    """A broker that can make no sandbox says why and what to do, in words for a newcomer."""

    @classmethod
    def setUpClass(cls):
        cls.place = harness.Place()

    def refusal(self, *arguments, **env):
        """What a call answers, or what serve said when it refused to start."""
        client = self.place.serve("--solo", *arguments, **env)
        try:
            client.initialize()
            r = client.tool("run_command", command="true", timeout=30)
            self.assertTrue(r.is_error, str(r))
            self.assertEqual({}, client.request("ping").result(5))
            return r.text
        except (EOFError, BrokenPipeError):
            client.proc.wait(10)
            self.assertNotEqual(0, client.proc.returncode)
            return client.errors()
        finally:
            client.close()
            self.assertEqual([], client.faults)

    def test_unknown_provider(self):
        """BROKER_PROVIDER=nonsense names what there is"""
        text = self.refusal(BROKER_PROVIDER="nonsense")
        self.assertIn("nonsense", text)
        self.assertIn("bubblewrap", text)

    def test_no_bwrap(self):
        """bubblewrap that is not installed: what to install"""
        with changed_bin(self, "rm /usr/bin/bwrap") as place:
            self.place = place
            text = self.refusal(BROKER_PROVIDER="bubblewrap")
        self.assertIn("bubblewrap", text)
        self.assertIn("install", text.lower())

    def test_broken_bwrap(self):
        """a bwrap that fails: its own words, and the next step"""
        script = "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
        with changed_bin(self, f'rm /usr/bin/bwrap && printf %s "{script}" >/usr/bin/bwrap && chmod 755 /usr/bin/bwrap') as place:
            self.place = place
            text = self.refusal(BROKER_PROVIDER="bubblewrap")
        self.assertIn("Permission denied", text)

    def test_no_agent(self):
        """a broker without its agent says which file is missing"""
        text = self.refusal(SCB_AGENT="/no/such/scb-agent")
        self.assertIn("/no/such/scb-agent", text)

    def test_bad_mount(self):
        """a mount that is not there, or whose name is no name"""
        for mount in ("data=/no/such/folder", "data", "=/usr", "../x=/usr", "a/b=/usr", "data=/etc/passwd"):
            with self.subTest(mount=mount):
                text = self.refusal("--mount", mount)
                self.assertIn(mount.split("=")[-1] if "=" in mount and mount[0] not in "=.a" else "mount", text)

    def test_bad_options(self):
        """an unknown option or limit: exit status and what is accepted"""
        for arguments in (["serve", "--no-such"], ["no-such"], ["serve", "--limit", "memory=lots"], ["serve", "--limit", "x=1"],
                          ["serve", "--limit"]):
            with self.subTest(arguments=arguments):
                done = self.place.scb(*arguments)
                self.assertNotEqual(0, done.returncode)
                self.assertEqual("", done.stdout)
                self.assertTrue(done.stderr.strip())

    def test_unwritable_audit(self):
        """no audit, no run: a state directory that cannot be written"""
        state = self.place.file(os.path.join(self.place.home, "not-a-folder"), b"x")
        text = self.refusal(XDG_STATE_HOME=state)
        self.assertIn("not-a-folder", text)


class NoInterpreter(unittest.TestCase):
    def test_no_python(self):
        """no Python in the sandbox: the answer names it; commands still run"""
        with changed_bin(self, "rm /usr/bin/python3*") as place:
            client = place.serve("--solo")
            try:
                client.initialize()
                r = client.tool("run_command", command="command -v python3 || echo none")
                self.assertEqual("none\n", r.stdout, str(r))
                r = client.tool("run_code", language="python", code="1")
                self.assertTrue(r.is_error, str(r))
                self.assertIn("python3", r.text)
                self.assertEqual("still here\n", client.tool("run_command", command="echo still here").stdout)
            finally:
                client.close()
            self.assertEqual([], client.faults)


if __name__ == "__main__":
    harness.main()
