#!/usr/bin/python3
"""Attacks on secrets: every form of a value through every exit; places where it must never be."""
import base64
import json
import os
import urllib.parse

import attack
import harness

VALUE = 'hunt/er2"+\\%=\u00fc-Zzy9'
HELD = "held-back-value-000"
RAW = VALUE.encode()

# Code that has the value in v (bytes) makes each of these texts of it.
FORMS = {
    "raw": "v",
    "base64 +0": "base64.b64encode(v + b'tail')",
    "base64 +1": "base64.b64encode(b'x' + v + b'tail')",
    "base64 +2": "base64.b64encode(b'xy' + v + b'tail')",
    "base64 url": "base64.urlsafe_b64encode(b'xy' + v + b'tail')",
    "hex": "v.hex().encode()",
    "HEX": "v.hex().upper().encode()",
    "percent": "urllib.parse.quote(v).encode()",
    "percent all": "urllib.parse.quote(v, safe='').encode()",
    "json": "json.dumps(v.decode())[1:-1].encode()",
    "json utf-8": "json.dumps(v.decode(), ensure_ascii=False)[1:-1].encode()",
}
MAKE = "import base64, json, os, urllib.parse\nv = os.environ['TOKEN'].encode()\nf = %s\n"


def cores():
    """What of each form must be in no answer: as far as it does not depend on what stands around it."""
    found = {RAW, RAW.hex().encode(), RAW.hex().upper().encode(), urllib.parse.quote(VALUE).encode(),
             urllib.parse.quote(VALUE, safe="").encode(), json.dumps(VALUE)[1:-1].encode(), json.dumps(VALUE, ensure_ascii=False)[1:-1].encode()}
    for shift in range(3):
        whole = base64.b64encode(b"\0" * shift + RAW)
        text = whole.rstrip(b"=")[(0, 2, 3)[shift]:]
        if (shift + len(RAW)) % 3:
            text = text[:-1]
        found |= {text, text.translate(bytes.maketrans(b"+/", b"-_"))}
    return found


CORES = cores()


def strings(x):
    if isinstance(x, str):
        yield x
    elif isinstance(x, dict):
        for k, y in x.items():
            yield k
            yield from strings(y)
    elif isinstance(x, list):
        for y in x:
            yield from strings(y)


class Given(attack.Attack):
    """A session that was given VALUE as TOKEN. All that comes from the server is kept."""

    @classmethod
    def setUpClass(cls):
        cls.place = harness.Place()
        cls.client = None
        cls.policy = os.path.join(cls.place.home, "policy.json")
        tools = ["run_code", "run_command", "job", "files", "present_output", "session"]
        cls.place.file(cls.policy, json.dumps({
            "version": 1, "tools": {"allow": tools, "images": True}, "outputs": {"allow": True, "executable": True},
            "secrets": {"token": {"source": "env:HOST_TOKEN", "exposure": "session", "variable": "TOKEN"},
                        "held": {"source": "env:HOST_HELD", "variable": "HELD"}}}).encode())
        os.chmod(cls.policy, 0o600)
        cls.SERVE, cls.ENV = ("--policy", cls.policy), {"HOST_TOKEN": VALUE, "HOST_HELD": HELD}
        cls.broker()

    @classmethod
    def broker(cls):
        before = cls.client
        client = super().broker()
        if client is not before:
            client.heard = []
            take = client._line
            client._line = lambda line: (client.heard.append(line), take(line))[1]
        return client

    def leaks(self, what):
        """Fails where a form of the value was in what the server has said since the last time."""
        heard, self.client.heard[:] = list(self.client.heard), []
        for line in heard:
            texts = [line] + [s.encode("utf-8", "surrogatepass") for s in strings(json.loads(line))]
            for text in texts:
                for core in CORES:
                    self.assertNotIn(core, text, f"{what}: in {line[:1500]!r}")


class Exits(Given):
    def each(self, code, **arguments):
        for name, form in FORMS.items():
            r = self.py(MAKE % form + code, **arguments)
            self.assertFalse(r.is_error, r.text)
            if "print(f" in code:
                self.assertIn("*" * len(RAW), r.stdout, name)
            self.leaks((name, code))

    def test_output(self):
        """standard output and error of cells, whole, by the byte, over a buffer's end, in two languages"""
        self.each("os.write(1, f); os.write(2, f); print(f); print(f.decode())")
        self.each("for i in range(len(f)): os.write(1, f[i:i + 1])")
        self.each("os.write(1, b'.' * (65536 - len(f) // 2)); os.write(1, f); os.write(1, b'.' * 9000)")
        self.each("import time\nos.write(1, f[:5]); time.sleep(0.15); os.write(1, f[5:])")
        self.each("os.write(1, b'\\r' + f + b'\\r' + b'\\x1b[2J' + f + b'\\xff' + f)")
        for command in ("echo \"$TOKEN\"; echo \"$TOKEN\" >&2; env", "printf %s \"$TOKEN\" | base64 -w0; printf %s \"$TOKEN\" | base64; printf %s \"$TOKEN\" | od -An -v -tx1 | tr -d ' \\n'",
                        "echo x >\"/workspace/$(printf %s \"$TOKEN\" | tr / _)\" ; set -x; true \"$TOKEN\"", "\"$TOKEN\""):
            self.sh(command)
            self.leaks(command)
            self.client.tool("run_code", language="shell", code=command)
            self.leaks(command)

    def test_values(self):
        """results, tables, exceptions, displays, names of types and threads"""
        for code in ("f.decode()", "f", "[f.decode()] * 3", "{f.decode(): f.decode()}", "raise ValueError(f.decode())", "raise type(f.decode(), (Exception,), {})('x')",
                     "display({'text/html': '<b>' + f.decode(), 'text/plain': f.decode(), 'application/json': {f.decode(): [f.decode()]}}, raw=True)",
                     "display({'x/' + f.decode()[:80]: 'y'}, raw=True)", "class A:\n    def __repr__(self): return f.decode()\nA()",
                     "exec(compile('1/0', f.decode(), 'exec'))", "import sys; sys.exit(f.decode())", "import warnings; warnings.warn(f.decode())",
                     "import logging; logging.error(f.decode())", "b'..' + f + b'..'"):
            self.each(code)
        self.each("""try:
    import pandas as pd
    x = pd.DataFrame({f.decode(): [f.decode(), 1], 'n': [f.decode(), None]}, index=[f.decode(), 'i'])
except ImportError:
    x = None
x""")
        self.each("import threading, time\nt = threading.Thread(target=time.sleep, args=(0.3,), name=f.decode()); t.start()\nNone", session=self.open())

    def test_fork_refused(self):
        """names of threads and open files, told when a kernel cannot be forked, or is"""
        s = self.open()
        self.py(MAKE % "v" + "import threading, time\nt = threading.Thread(target=time.sleep, args=(3,), name=v.decode()); t.start()\nNone", session=s)
        self.client.tool("session", action="fork", session=s)
        self.leaks("thread")
        s = self.open()
        self.py(MAKE % "v" + "os.makedirs('/tmp/' + os.path.dirname(v.decode()), exist_ok=True)\ng = open('/tmp/' + v.decode(), 'w')\nNone", session=s)
        self.client.tool("session", action="fork", session=s)
        self.leaks("open file")

    def test_job(self):
        """a job's output read whole, by the byte, in both encodings, and searched; its list"""
        for name, form in FORMS.items():
            job = self.py(MAKE % form + "os.write(1, b'ab' + f + b'cd\\n' + f)").job
            whole = self.client.tool("job", action="read", job=job)
            self.assertFalse(whole.is_error, whole.text)
            for encoding in ("text", "base64"):
                pieces = b""
                at, n = 0, None
                while n is None or at < n:
                    r = self.client.tool("job", action="read", job=job, offset=at, length=7, encoding=encoding)
                    self.assertFalse(r.is_error, r.text)
                    data = base64.b64decode(r.data["data"]) if encoding == "base64" else r.data["text"].encode()
                    if not data:
                        break
                    pieces += data
                    at += len(data) if encoding == "base64" else 7
                for core in CORES:
                    self.assertNotIn(core, pieces, (name, encoding))
            self.leaks(("job read", name))
        for pattern in ("hunt", VALUE, VALUE[:9], RAW.hex()[:12], "2\"+"):
            r = self.client.tool("job", action="search", job=job, pattern=pattern)
            self.assertEqual([], r.hits or [], (pattern, str(r)))
            self.client.heard.clear()  # the pattern was the model's own
        self.sh("sleep 0 # $TOKEN")
        self.client.tool("job", action="list")
        self.leaks("job list")

    def test_files(self):
        """files read whole, by the byte, searched; names that hold it; errors that quote them"""
        s = self.open()
        for name, form in FORMS.items():
            self.py(MAKE % form + "open('kept', 'wb').write(b'ab' + f + b'cd\\n' + f)", session=s)
            self.files("read", path="kept", session=s)
            self.files("read", path="kept", session=s, encoding="base64")
            pieces = b""
            for at in range(0, 120, 5):
                r = self.files("read", path="kept", session=s, encoding="base64", offset=at, length=5)
                pieces += base64.b64decode(r.data["data"]) if not r.is_error else b""
            for core in CORES:
                self.assertNotIn(core, pieces, name)
            self.leaks(("files read", name))
            r = self.files("search", path=".", pattern="ab", session=s)
            self.leaks(("files search", name))
        for pattern in ("hunt", VALUE[:9]):
            r = self.files("search", path=".", pattern=pattern, session=s)
            self.assertEqual([], r.entries or [], str(r))
            self.client.heard.clear()
        self.py(MAKE % "v" + """names = [g.decode().replace('/', '_') for g in (v.hex().encode(), base64.b64encode(b'xy' + v + b'tail').replace(b'/', b'_'))]
for n in names + ['d']:
    open('n-' + n, 'w').write('x')
os.makedirs('deep/' + v.decode(), exist_ok=True)
open('deep/' + v.decode() + '/f', 'w').write('needle')
os.symlink(v.decode(), 'link')
None""", session=s)
        for action, more in (("list", {"path": ".", "depth": 8}), ("search", {"path": ".", "pattern": "needle"}), ("search", {"path": ".", "name": "*"}),
                             ("stat", {"path": "link"}), ("read", {"path": "link"}), ("delete", {"path": "deep"})):
            self.files(action, session=s, **more)
            self.leaks(("files", action))

    def test_edit_oracle(self):
        """an edit does not tell whether a guess stands in a file"""
        s = self.open()
        self.py(MAKE % "v" + "open('k', 'wb').write(b'TOKEN=' + v)", session=s)
        right = self.files("edit", path="k", old_text="TOKEN=" + VALUE[:6], new_text="TOKEN=" + VALUE[:6], session=s)
        wrong = self.files("edit", path="k", old_text="TOKEN=" + "hunt/X", new_text="TOKEN=hunt/X", session=s)
        self.assertEqual(right.is_error, wrong.is_error, (right.text, wrong.text))

    def test_presented(self):
        """a file that holds it in any form is not presented; neither is one whose name or title does"""
        for name, form in FORMS.items():
            seen = self.seen()
            self.py(MAKE % form + "open('p.bin', 'wb').write(b'\\0' * 70000 + f + b'\\0' * 70000)")
            r = self.client.tool("present_output", path="p.bin")
            self.assertTrue(r.is_error, name)
            self.assertIn("token", r.text)
            self.leaks(("present", name))
            e = self.audited("file.refused", seen, path="p.bin")[0]
            self.assertNotIn(VALUE, json.dumps(e, ensure_ascii=False))
        kept = [n for w, _, ns in os.walk(os.path.join(self.place.home, "scb-outputs")) for n in ns]
        self.assertEqual([], kept)
        self.py(MAKE % "v" + "open('n-' + v.hex() + '.txt', 'w').write('x')\nNone")
        self.client.tool("present_output", path=f"n-{RAW.hex()}.txt")
        self.assertEqual([], [n for w, _, ns in os.walk(os.path.join(self.place.home, "scb-outputs")) for n in ns])
        self.client.heard.clear()  # the model's own words
        self.client.request("resources/list").result(5)
        self.leaks("resources/list")

    def test_audit(self):
        """nothing of it in the audit log, the broker's log, the store"""
        self.each("print(f.decode())\nraise ValueError(f.decode())")
        self.sh("echo $TOKEN; exit 3")
        self.files("read", path="no/" + VALUE.replace("/", "_"))
        self.client.tool("present_output", path=VALUE)
        self.client.tool("run_command", command="true", cwd="/workspace/" + VALUE)
        self.client.heard.clear()
        for where, dirs, names in os.walk(self.place.state):
            for name in names:
                with open(os.path.join(where, name), "rb") as f:
                    data = f.read()
                for core in CORES | {HELD.encode()}:
                    self.assertNotIn(core, data, os.path.join(where, name))
        hits = [e for e in self.place.audit() if e["event"] == "redact.hit"]
        for e in hits:
            self.assertLessEqual({"ASI03", "T3", "T9"}, set(e["owasp"]))

    def test_run(self):
        """scb run masks, too, on both of its outputs"""
        for form in FORMS.values():
            done = self.place.scb("run", *self.SERVE, "-c", MAKE % form + "os.write(1, f); raise ValueError(f.decode())", **self.ENV)
            self.assertEqual(1, done.returncode, done.stderr)
            self.assertIn("*" * len(RAW), done.stdout)
            for core in CORES:
                self.assertNotIn(core, (done.stdout + done.stderr).encode())

    def test_placeholder(self):
        """what is held back is nowhere inside: undeclared forms of it cannot be made"""
        r = self.sh("env; cat /proc/*/environ; printf %s \"$HELD\" | rev; printf %s \"$HELD\" | gzip | base64")
        self.assertDone(r, None)
        self.assertNotIn(HELD[::-1], r.stdout)
        self.assertIn("scb-placeholder-held-", r.stdout)
        r = self.py("import os\nos.environ['HELD'][::-1]")
        self.assertNotIn(HELD[::-1], str(r.result))


if __name__ == "__main__":
    harness.main()
