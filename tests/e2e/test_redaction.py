#!/usr/bin/python3
"""What leaves is masked: every form, through every exit, whole or byte by byte."""
import base64
import glob
import json
import os
import urllib.parse

import harness

TOKEN = "q7/Z+9=k\"wé\\<e>Rm2"
DIGITS = "4711081547110816"
KEY = "-----BEGIN KEY-----\nMIIEow/abc+defghijklmnopqrstuvwxyz\nZZ9yxw==\n-----END KEY-----"
SECRETS = {"token": TOKEN, "digits": DIGITS, "key": KEY}
# What code inside needs to have them.
ENV = "import os; T, D, K = (os.environ[n] for n in ('TOKEN', 'DIGITS', 'KEY'))\n"


def forms(value):
    """Computed by Python's encoders, without a look at ours."""
    raw = value.encode()
    found = {value, raw.hex(), raw.hex().upper(), json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1],
             json.dumps(value)[1:-1].replace("/", "\\/"), urllib.parse.quote(value), urllib.parse.quote(value, safe=""),
             urllib.parse.quote_plus(value), "".join(f"%{b:02x}" for b in raw), "".join(f"%{b:02X}" for b in raw),
             "".join(f"\\u{ord(c):04x}" for c in value), "".join(f"\\u{ord(c):04X}" for c in value)}
    for before in range(3):
        # without the characters that neighbours have a part in
        first = (before * 8 + 5) // 6
        last = (before + len(raw)) * 8 // 6
        for encode in base64.b64encode, base64.urlsafe_b64encode:
            found.add(encode(b"\0" * before + raw + b"\0" * 3).decode()[first:last])
    found.update(line for line in base64.encodebytes(raw).decode().split("\n") if len(line) > 8)
    found.update(raw.hex()[i:i + 60] for i in range(0, 2 * len(raw), 60) if len(raw.hex()[i:]) > 8)
    return found


MASK = "*" * len(TOKEN.encode())
FORMS = set().union(*(forms(v) for v in SECRETS.values()))

# Code that prints TOKEN in all these forms.
PRINT_FORMS = ENV + """
import sys, json, base64, binascii, urllib.parse
raw = T.encode()
print('raw', T, 'end'); print('hex', raw.hex(), raw.hex().upper())
for k in range(3):
    print('b64', base64.b64encode(b'x' * k + raw + b'yyy').decode(), base64.urlsafe_b64encode(b'x' * k + raw).decode())
print('quoted', urllib.parse.quote(T), urllib.parse.quote(T, safe=''), urllib.parse.quote_plus(T))
print('all', ''.join('%%%02x' % b for b in raw), ''.join('%%%02X' % b for b in raw))
print('json', json.dumps(T), json.dumps({'a': T}, ensure_ascii=False), json.dumps(T).replace('/', '\\\\/'))
print('u', ''.join('\\\\u%04x' % ord(c) for c in T), ''.join('\\\\u%04X' % ord(c) for c in T))
print('key', K); print('key', json.dumps(K)); print('key', base64.b64encode(K.encode()).decode())
"""


def texts(v):
    """Every text in a JSON value, names of members too, and what is base64 in it, decoded."""
    if isinstance(v, str):
        yield v
    elif isinstance(v, dict):
        for name, item in v.items():
            yield name
            yield from texts(item)
            if name in ("data", "blob") and isinstance(item, str):
                yield base64.b64decode(item).decode("utf-8", "replace")
    elif isinstance(v, list):
        for item in v:
            yield from texts(item)
    elif isinstance(v, (int, float)):
        yield repr(v)


class Redaction(harness.Case):
    ENV = {"HOST_TOKEN": TOKEN, "HOST_DIGITS": DIGITS}

    @classmethod
    def setUpClass(cls):
        cls.place = harness.Place()
        cls.client = None
        key = cls.place.file(os.path.join(cls.place.home, "key"), KEY.encode())
        os.chmod(key, 0o600)
        cls.policy_path = os.path.join(cls.place.home, "policy.json")
        cls.secrets = {
            "token": {"source": "env:HOST_TOKEN", "exposure": "session", "variable": "TOKEN"},
            "digits": {"source": "env:HOST_DIGITS", "exposure": "session", "variable": "DIGITS"},
            "key": {"source": "file:" + key, "exposure": "session", "variable": "KEY"},
        }
        cls.policy(cls.secrets)
        cls.SERVE = ("--policy", cls.policy_path)
        cls.broker()

    @classmethod
    def policy(cls, secrets):
        tools = ["run_code", "run_command", "job", "files", "present_output", "session"]
        text = json.dumps({"version": 1, "tools": {"allow": tools}, "secrets": secrets, "outputs": {"allow": True}})
        cls.place.file(cls.policy_path, text.encode())
        os.chmod(cls.policy_path, 0o600)

    @classmethod
    def broker(cls):
        client = super().broker()
        if not hasattr(client, "messages"):
            client.messages, line = [], client._line

            def keep(data):
                client.messages.append(data)
                line(data)

            client._line = keep
        return client

    def setUp(self):
        super().setUp()
        self.client.messages.clear()

    def tearDown(self):
        """Nothing that came in this test holds a secret."""
        for line in list(self.client.messages):
            text = line.decode()
            for found in (f for f in FORMS if f in text or any(f in t for t in texts(json.loads(text)))):
                self.fail(f"{found!r} left in: {text[:3000]}")

    # -- running

    def test_every_form(self):
        for stream in "stdout", "stderr":
            r = self.py(f"import sys\nsys.stdout = sys.{stream}\n" + PRINT_FORMS + "\nsys.stdout = sys.__stdout__")
            self.assertDone(r)
            text = getattr(r, stream)
            self.assertIn("raw " + MASK + " end", text, str(r))
            self.assertIn("hex " + 2 * MASK + " ", text)
            self.assertIn("key " + "*" * len(KEY), text)
        r = self.sh("printf '%s\\n' \"$TOKEN\"; printf '%s' \"$TOKEN\" | base64; printf '%s' \"$TOKEN\" | od -An -v -tx1 | tr -d ' \\n'")
        self.assertDone(r)
        self.assertTrue(r.stdout.startswith(MASK + "\n"), str(r))
        r = self.sh("printf '%s' \"$KEY\" | base64; printf '%s' \"$KEY\" | base64 -w 64; printf '%s' \"$KEY\" | od -An -v -tx1 | tr -d ' \\n' | fold -w 60")
        self.assertDone(r)
        self.assertEqual({"*", "=", "\n"}, set(r.stdout) | set("=\n"), str(r))

    def test_nothing_else_is_masked(self):
        r = self.py("print('q7/Z+9 is no secret, nor is 47110815')")
        self.assertEqual("q7/Z+9 is no secret, nor is 47110815\n", r.stdout)

    def test_split(self):
        r = self.py(ENV + "import sys, time\nfor c in T:\n sys.stdout.write(c); sys.stdout.flush(); time.sleep(.002)\nprint()\n"
                    "print('x' * (65536 - 7) + T + 'y')", timeout_s=20)
        self.assertDone(r)
        self.assertTrue(r.stdout.startswith(MASK + "\n"), r.stdout[:100])
        r = self.py(ENV + "import sys\nh = len(T) // 2\nprint(T[:h], end='', flush=True)\nprint('between', file=sys.stderr, flush=True)\nprint(T[h:])")
        self.assertEqual(MASK + "\n", r.stdout)
        job = r.job
        both = self.client.tool("job", action="read", job=job, stream="both")
        self.assertEqual({"*"}, set("".join(p["text"] for p in both.pieces if p["stream"] == "stdout").strip()), str(both))

    def test_cut_through(self):
        """A secret at each place around where head and tail of a long output are cut."""
        for at in list(range(32768 - 24, 32768 + 3, 5)) + list(range(12288 - 24, 12288 + 3, 5)):
            r = self.py(ENV + f"import sys; sys.stdout.write('a' * {at} + T + 'b' * 200000 + T + 'c' * {at})")
            self.assertDone(r)
            for part in range(4, len(TOKEN)):
                self.assertNotIn("a" + TOKEN[:part], r.stdout)
                self.assertNotIn(TOKEN[-part:] + "c", r.stdout)

    def test_put_together_by_a_terminal(self):
        r = self.py(ENV + "print('\\x1b[0m'.join(T)); print('..' + T[2:] + '\\r' + T[:2]); print(T[0] + 'x\\b' + T[1:])")
        self.assertDone(r)
        self.assertEqual([MASK] * 3, r.stdout.splitlines())
        r = self.py(ENV + "print('a' * 12280 + '\\x1b[0m'.join(T) + 'b' * 30000)")
        self.assertDone(r)

    def test_results(self):
        for code in ("T", "{T: [T, int(D), {'k': D}]}", "[T]"):
            self.assertDone(self.py(ENV + code))
        r = self.py(ENV + "class J:\n def _repr_mimebundle_(self, **k):\n  return {'application/json': {T: T, 'n': int(D), 'l': [float(D)]},"
                    " 'text/html': '<b>' + T + '</b>', 'text/plain': T, 'text/markdown': K, 'image/svg+xml': '<svg>' + D + '</svg>'}\nJ()")
        self.assertDone(r)
        mime = r.results[0]["mime"]
        self.assertIn("application/json", mime, str(r))
        self.assertEqual("*" * len(DIGITS), mime["application/json"]["n"])
        r = self.py(ENV + "import json\nprint(json.dumps({'a\\n' + D: D}))")
        self.assertDone(r)

    def test_table(self):
        r = self.py(ENV + "import pandas as pd\npd.DataFrame({T: [T, 'x'], 'n': [int(D), 1]})", timeout_s=60)
        if r.error and r.error["name"] == "ModuleNotFoundError":
            self.skipTest("pandas is not installed")
        self.assertDone(r)
        table = r.results[0]["mime"]["application/vnd.scb.table+json"]
        self.assertEqual(["*" * len(DIGITS), 1], table["data"][1], str(table))

    def test_shortened(self):
        """What kernel and pandas leave of a long text shows no part of a secret."""
        for code in ("'a' * 3000 + K + 'b' * 40000", "'a' * 40000 + K * 3 + 'b' * 3050", "[K * 30] * 500"):
            r = self.py(ENV + code)
            self.assertDone(r)
            for part in range(8, len(KEY), 5):
                self.assertNotIn(json.dumps("a" + KEY[:part])[1:-1], r.text)
        r = self.py(ENV + "import pandas as pd\npd.set_option('display.max_colwidth', 20)\npd.DataFrame({'t': [K, 'z' * 8 + K]})", timeout_s=60)
        if r.error and r.error["name"] == "ModuleNotFoundError":
            self.skipTest("pandas is not installed")
        self.assertDone(r)
        self.assertNotIn(KEY[:8], json.dumps(r.results[0]["mime"]["text/plain"]))

    def test_errors_of_a_program(self):
        r = self.py(ENV + "raise ValueError('no ' + T)")
        self.assertEqual("no " + MASK, r.error["message"])
        r = self.py(ENV + "raise type('E' + D, (Exception,), {})(K)")
        self.assertEqual("E" + "*" * len(DIGITS), r.error["name"])
        self.assertIn("traceback", r.error)

    def test_words_of_an_image(self):
        r = self.py(ENV + "import zlib, struct\n"
                    "def chunk(t, d): return struct.pack('>I', len(d)) + t + d + struct.pack('>I', zlib.crc32(t + d))\n"
                    "png = b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0)) + "
                    "chunk(b'tEXt', b'k\\0' + T.encode()) + chunk(b'IDAT', zlib.compress(b'\\0\\0')) + chunk(b'IEND', b'')\n"
                    "class P:\n def _repr_png_(self): return png\nP()")
        self.assertDone(r)
        self.assertEqual([], r.images)
        self.assertIn("the secret token stands in", r.text)

    def test_lists_of_jobs(self):
        r = self.client.tool("run_command", command=f"sleep 30; : '{DIGITS}'", wait_s=0)
        for answer in (self.client.tool("job", action="list"), self.client.tool("session", action="info", session=r.session)):
            self.assertIn("*" * len(DIGITS), answer.text)
        self.client.tool("job", action="signal", job=r.job)

    # -- a job's output by offset

    def whole_and_parts(self, read, size):
        """The bytes from 0 to size, read at once, byte by byte and in odd pieces: all the same."""
        whole = read(0, size)
        self.assertEqual(whole, b"".join(read(i, 1) for i in range(size)))
        self.assertEqual(whole, b"".join(read(i, 7) for i in range(0, size, 7)))
        return whole

    def test_job_read(self):
        r = self.py(ENV + "import base64; print('-' * 20 + T + 'é' + base64.b64encode(b'x' + T.encode()).decode() + K + D)")
        size = self.client.tool("job", action="read", job=r.job).totalBytes

        def read(offset, length):
            a = self.client.tool("job", action="read", job=r.job, offset=offset, length=length, encoding="base64")
            self.assertEqual(min(length, size - offset), a.bytes, str(a))
            return base64.b64decode(a.data["data"])

        whole = self.whole_and_parts(read, size)
        self.assertEqual(b"-" * 20 + MASK.encode() + "é".encode(), whole[:20 + len(TOKEN.encode()) + 2])
        text = self.client.tool("job", action="read", job=r.job)
        self.assertEqual(whole.decode(), text.data["text"])

        both = self.client.tool("job", action="read", job=r.job, stream="both")
        self.assertEqual(whole.decode(), "".join(p["text"] for p in both.pieces))
        one = [self.client.tool("job", action="read", job=r.job, stream="both", offset=i, length=1) for i in range(20, 30)]
        self.assertEqual({"*"}, {p["text"] for a in one for p in a.pieces})

    def test_job_read_of_two_streams(self):
        r = self.py(ENV + "import sys\nfor i in range(0, len(D), 4):\n print(D[i:i+4], end='', flush=True); print('.' * 40, end='', file=sys.stderr, flush=True)")
        total = self.client.tool("job", action="read", job=r.job, stream="both").totalBytes
        out = ""
        for i in range(total):
            a = self.client.tool("job", action="read", job=r.job, stream="both", offset=i, length=1)
            out += "".join(p["text"] for p in a.pieces if p["stream"] == "stdout")
        self.assertEqual("*" * len(DIGITS), out)

    def test_job_that_still_prints(self):
        """What may be the beginning of a secret is held back until more has come."""
        r = self.client.tool("run_code", language="python", wait_s=0, code=ENV + "import time, os\n"
                             "print('so: ' + D[:9], end='', flush=True)\nwhile not os.path.exists('go'): time.sleep(.01)\nprint(D[9:])")
        read = lambda **a: self.client.tool("job", action="read", job=r.job, **a)  # noqa: E731
        self.assertTrue(harness.until(lambda: read().totalBytes == 13, 10))
        a = read()
        self.assertEqual(("so: ", 4, 13), (a.data["text"], a.bytes, a.totalBytes), str(a))
        self.assertNotIn(DIGITS[:5], str(self.client.tool("job", action="wait", job=r.job, wait_s=0)))
        self.client.tool("files", action="write", path="go", content="")
        self.assertDone(self.client.tool("job", action="wait", job=r.job))
        self.assertEqual("*" * 16 + "\n", read(offset=4).data["text"])

    def test_job_search(self):
        r = self.py(ENV + "print('line 1 ' + D + ' needle'); print('needle 2 471108'); print('x' * 300000 + D + 'end')")

        def search(pattern, **a):
            return self.client.tool("job", action="search", job=r.job, pattern=pattern, **a)

        self.assertEqual([len("line 1 " + DIGITS + " needle\nneedle 2 ")], [h["offset"] for h in search("471108").hits])
        for part in (DIGITS, DIGITS[1:], DIGITS[:5] + "1081", "1 4711", "6 needle", DIGITS[-3:] + "end"):
            a = search(part, limit=1)
            self.assertEqual(([], False), (a.hits, a.more), str(a))
        a = search("needle")
        self.assertEqual(["line 1 " + "*" * 16 + " needle", "needle 2 471108"], [h["text"] for h in a.hits], str(a))
        self.assertEqual(1, len(search("xend").hits) + len(search("*end").hits))
        a = search("needle", limit=1)
        self.assertTrue(a.more)
        again = search("needle", limit=1, stream=a.nextStream, offset=a.nextOffset)
        self.assertEqual(["needle 2 471108"], [h["text"] for h in again.hits])

    # -- files

    def test_files_read(self):
        self.assertDone(self.py(ENV + "open('f.txt', 'w').write('-' * 9 + T + 'é' + D + '\\n' + K + '\\n')"))
        size = len(("-" * 9 + TOKEN + "é" + DIGITS + "\n" + KEY + "\n").encode())

        def read(offset, length):
            a = self.client.tool("files", action="read", path="f.txt", offset=offset, length=length, encoding="base64")
            return base64.b64decode(a.data["data"])

        whole = self.whole_and_parts(read, size)
        want = "-" * 9 + MASK + "é" + "*" * 16 + "\n" + "*" * len(KEY) + "\n"
        self.assertEqual(want.encode(), whole)
        self.assertEqual(want, self.client.tool("files", action="read", path="f.txt").data["text"])

    def test_files_search(self):
        self.assertDone(self.py(ENV + "import os; os.makedirs('s', exist_ok=True)\n"
                                "open('s/a.txt', 'w').write('one\\nkey=' + D + ' after\\n')\nopen('s/b.txt', 'w').write('4711 plain\\n')\n"
                                "open('s/c.txt', 'w').write(D + ' and 4711 too\\n')\nopen('s/' + D + '.csv', 'w').write('x')\n"
                                "open('s/long.txt', 'w').write('y' * 200000 + D + ' z4711\\n')"))

        def search(**a):
            return self.client.tool("files", action="search", path="s", **a)

        for part in (DIGITS[:6], DIGITS[3:9], DIGITS[-4:], "=4711", "6 after"):
            a = search(pattern=part)
            self.assertEqual(([], False), (a.entries, a.more), str(a))
        a = search(pattern="4711")
        self.assertEqual([("s/b.txt", 1, "4711 plain"), ("s/c.txt", 1, "*" * 16 + " and 4711 too")],
                         [(e["path"], e["line"], e["text"]) for e in a.entries if "long" not in e["path"]], str(a))
        self.assertEqual(["s/a.txt"], [e["path"] for e in search(pattern="after").entries])
        self.assertEqual(1, len(search(pattern="4711", limit=1).entries))
        self.assertEqual([], search(name=DIGITS[:4] + "*").entries)
        self.assertEqual(["s/" + "*" * 16 + ".csv"], [e["path"] for e in search(name="*.csv").entries])

    def test_files_lists_and_refusals(self):
        self.assertDone(self.py(ENV + "import os; os.makedirs('d/' + D, exist_ok=True); open('d/' + D + '/' + D, 'w').close()"))
        a = self.client.tool("files", action="list", path="d", depth=3)
        self.assertEqual(2, len(a.entries))
        self.assertRefused(self.client.tool("files", action="stat", path="nowhere/" + DIGITS), "*" * 16)
        for action in ("read", "delete", "mkdir", "stat"):
            self.client.tool("files", action=action, path="nowhere/" + DIGITS)
        self.assertRefused(self.client.tool("job", action="wait", job=DIGITS))
        self.assertRefused(self.client.tool("run_code", language=DIGITS, code="1"))
        call = self.client.request("tools/call", {"name": DIGITS, "arguments": {}})
        self.assertIn("*" * 16, call.error()["message"])
        call = self.client.request(DIGITS)
        self.assertIn("*" * 16, call.error()["message"])

    def test_files_edit(self):
        """Trying finds nothing, and changes nothing."""
        self.assertDone(self.py(ENV + "open('e.txt', 'w').write('a=' + D + ' 4711 b\\n')"))
        for part in (DIGITS, DIGITS[:7], "=47", DIGITS[-2:] + " "):
            a = self.client.tool("files", action="edit", path="e.txt", old_text=part, new_text="x")
            self.assertRefused(a, "does not occur")
        a = self.client.tool("files", action="edit", path="e.txt", old_text="4711", new_text="4712")
        self.assertEqual(1, a.count, str(a))
        self.assertEqual("True", self.py(ENV + "open('e.txt').read() == 'a=' + D + ' 4712 b\\n'").results[0]["mime"]["text/plain"])

    # -- presented files

    def refused(self, **arguments):
        a = self.client.tool("present_output", **arguments)
        self.assertTrue(a.is_error, str(a))
        return a.text

    def test_presented_files(self):
        self.assertDone(self.py(ENV + "import gzip, base64\nopen('p.txt', 'w').write('1234\\n' + T)\nopen('q.bin', 'wb').write(b'\\0' * 300000 + base64.b64encode(T.encode()))\n"
                                "open('r-' + D + '.txt', 'w').write('x')\nopen('s.txt', 'w').write('fine')\ngzip.open('t.gz', 'w').write(T.encode())"))
        text = self.refused(path="p.txt")
        for word in ("p.txt", "the secret token", "byte 5"):
            self.assertIn(word, text)
        self.assertIn("byte 300000", self.refused(path="q.bin"))
        self.assertIn("the secret digits stands in its path", self.refused(path=f"r-{DIGITS}.txt"))
        self.assertIn("the secret digits stands in its title", self.refused(path="s.txt", title="my " + DIGITS))
        self.assertEqual([], glob.glob(os.path.join(self.place.home, "scb-outputs", "*", "*", "[p-s]*")))
        fine = self.client.tool("present_output", path="s.txt", title="fine")
        self.assertFalse(fine.is_error, str(fine))
        packed = self.client.tool("present_output", path="t.gz")
        self.assertFalse(packed.is_error, str(packed))
        details = [e.get("detail") for e in self.place.audit() if e["event"] == "file.present"]
        self.assertEqual([None, "not looked into: gzip"], details[-2:])

    def test_presented_before_it_was_known(self):
        late = "late-secret-4f8a9b"
        self.assertDone(self.py(f"open('l.txt', 'w').write('a' * 9 + '{late}' + 'x')\nopen('l.bin', 'wb').write(b'\\xff\\0{late}')\nopen('{late}.md', 'w').write('x')"))
        uris = [self.client.tool("present_output", path=p).uri for p in ("l.txt", "l.bin", late + ".md")]
        path = self.place.file(os.path.join(self.place.home, "late"), late.encode())
        os.chmod(path, 0o600)
        self.policy({**self.secrets, "late": {"source": "file:" + path}})
        try:
            masked = "a" * 9 + "*" * len(late) + "x"

            def read(uri, query=""):
                return self.client.request("resources/read", {"uri": uri + query})

            self.assertTrue(harness.until(lambda: read(uris[0]).result()["contents"][0]["text"] == masked, 10))
            pieces = (read(uris[0], f"?offset={i}&length=1").result() for i in range(len(masked)))
            self.assertEqual(masked, "".join(p["contents"][0]["text"] for p in pieces))
            self.assertIn("the secret late stands in this file", read(uris[1]).error()["message"])
            self.assertNotIn(late, json.dumps(self.client.request("resources/list").result()))
        finally:
            self.policy(self.secrets)

    # -- what is kept

    def test_audit(self):
        before = len(self.place.audit())
        self.assertDone(self.py(ENV + "print(T, T, D)"))
        self.client.tool("files", action="stat", path=DIGITS)
        hits = [(e["event"], e.get("detail"), e["tool"]) for e in self.place.audit()[before:] if e["event"] == "redact.hit"]
        self.assertEqual([("redact.hit", "token: 2", "run_code"), ("redact.hit", "digits: 1", "run_code"),
                          ("redact.hit", "digits: 1", "files")], sorted(hits, key=lambda h: (h[2] != "run_code", -ord(h[1][0]))))

    def test_zz_nothing_is_kept(self):
        for path in glob.glob(os.path.join(self.place.state, "**", "*"), recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    data = f.read().decode("utf-8", "replace")
                for form in FORMS:
                    self.assertNotIn(form, data, path)


if __name__ == "__main__":
    harness.main()
