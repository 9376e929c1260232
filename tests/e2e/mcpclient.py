"""mcpclient.py: a strict MCP client over stdio, in plain Python.

Every line that the server prints must be one JSON-RPC message of at most 900,000 bytes; what is not
is kept in `faults`, and a test that closes its client fails for it. Requests may be in flight at
once; answers are matched by id. Nothing here retries or forgives.
"""
import json
import os
import subprocess
import tempfile
import threading
import time

MAX_LINE = 900_000
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
MODERN = "2026-07-28"
SLOW = float(os.environ.get("SCB_SLOW", "1"))  # how many times slower this machine is than most
INFO = {"name": "scb-e2e", "version": "1"}


def _no_duplicates(pairs):
    keys = [k for k, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError("duplicate keys")
    return dict(pairs)


def memory(pid):
    """Resident bytes of a process's own memory (no file pages)."""
    with open(f"/proc/{pid}/status") as f:
        return next((int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon:")), 0)


class Call:
    """A request in flight."""

    def __init__(self, client, id, method):
        self.client, self.id, self.method = client, id, method
        self.began = time.monotonic()
        self.done = threading.Event()
        self.message = None
        self.took = None

    def wait(self, timeout=60):
        """The whole answer: an object with "result" or "error"."""
        if not self.done.wait(timeout * SLOW):
            raise TimeoutError(f"{self.method} (id {self.id}) not answered within {timeout} s"
                               + self.client.explain())
        if self.message is None:
            raise EOFError(f"{self.method}: the server closed its stdout" + self.client.explain())
        return self.message

    def result(self, timeout=60):
        message = self.wait(timeout)
        if "error" in message:
            raise AssertionError(f"{self.method}: {message['error']}")
        return message["result"]

    def error(self, timeout=60):
        message = self.wait(timeout)
        if "error" not in message:
            raise AssertionError(f"{self.method} should fail, but: {str(message)[:500]}")
        return message["error"]


class Tool:
    """What a tool answered."""

    def __init__(self, result, took):
        self.result, self.took = result, took
        self.is_error = result.get("isError", False)
        self.data = result.get("structuredContent")
        self.text = "\n".join(c["text"] for c in result["content"] if c["type"] == "text")
        self.images = [c for c in result["content"] if c["type"] == "image"]

    def __getattr__(self, name):
        """r.stdout, r.exitCode, …: members of the structured content; None where left out."""
        if name.startswith("__"):
            raise AttributeError(name)
        if self.data is None:
            raise AssertionError(f"no structuredContent: {self.text}")
        return self.data.get(name)

    @property
    def reason(self):
        return (self.exit or {}).get("reason")

    def __str__(self):
        return json.dumps(self.result, ensure_ascii=False)[:3000]


class Client:
    def __init__(self, argv, env, cwd=None):
        self.stderr = tempfile.TemporaryFile()
        self.faults = []          # lines that are no protocol
        self.notifications = []   # from the server
        self.unmatched = []       # answers without a request of ours (id null and the like)
        self.changed = threading.Condition()
        self.calls = {}
        self.lock = threading.Lock()
        self.next_id = 0
        self.lines = 0
        self.envelope = None      # the modern era's _meta
        self.proc = subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.PIPE, bufsize=0,
                                     stdout=subprocess.PIPE, stderr=self.stderr, start_new_session=True)
        self.server = None        # tells the pid of the broker that the process is a front of
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    @property
    def pid(self):
        """Whose children the sandboxes are: the broker, or the process itself."""
        return (self.server and self.server()) or self.proc.pid

    # -- reading

    def _read(self):
        with open(self.proc.stdout.fileno(), "rb", buffering=1 << 16, closefd=False) as out:
            for line in out:
                self.lines += 1
                self._line(line)
        with self.lock:
            pending, self.calls = list(self.calls.values()), {}
        for call in pending:
            call.done.set()
        with self.changed:
            self.changed.notify_all()

    def _line(self, line):
        if not line.endswith(b"\n"):
            self.faults.append(f"the last line has no newline: {line[:200]!r}")
        if len(line) > MAX_LINE:
            self.faults.append(f"a line of {len(line)} bytes")
        try:
            message = json.loads(line.decode("utf-8"), object_pairs_hook=_no_duplicates)
            if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
                raise ValueError("not a JSON-RPC message")
            if "method" not in message and ("result" in message) == ("error" in message):
                raise ValueError("neither a result nor an error")
        except ValueError as e:
            self.faults.append(f"{e}: {line[:300]!r}")
            return
        if "method" in message:
            if "id" in message:
                self.faults.append(f"a request from the server: {line[:300]!r}")
            with self.changed:
                self.notifications.append((time.monotonic(), message))
                self.changed.notify_all()
            return
        with self.lock:
            call = self.calls.pop(message.get("id"), None) if message.get("id") is not None else None
        if call is None:
            with self.changed:
                self.unmatched.append(message)
                self.changed.notify_all()
            return
        call.message = message
        call.took = time.monotonic() - call.began
        call.done.set()

    def wait_for(self, predicate, timeout=5):
        """Until predicate(self) holds; it looks at notifications and unmatched."""
        end = time.monotonic() + timeout * SLOW
        with self.changed:
            while not predicate(self):
                left = end - time.monotonic()
                if left <= 0 or not self.reader.is_alive():
                    if predicate(self):
                        break
                    raise TimeoutError("what was waited for did not come" + self.explain())
                self.changed.wait(min(left, 0.2))

    # -- writing

    def raw(self, data):
        view = memoryview(data)
        while len(view):
            view = view[os.write(self.proc.stdin.fileno(), view[:1 << 16]):]

    def send(self, message):
        self.raw(json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")

    def request(self, method, params=None, id=None):
        with self.lock:
            if id is None:
                self.next_id += 1
                id = self.next_id
            call = Call(self, id, method)
            self.calls[id] = call
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        if self.envelope is not None:
            params = dict(params or {})
            params["_meta"] = {**self.envelope, **params.get("_meta", {})}
        if params is not None:
            message["params"] = params
        self.send(message)
        return call

    def expect(self, id):
        """A Call for an id that is sent by raw()."""
        call = Call(self, id, "raw")
        with self.lock:
            self.calls[id] = call
        return call

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    # -- MCP

    def initialize(self, version=LEGACY[0], capabilities=None, timeout=10):
        result = self.request("initialize", {"protocolVersion": version, "clientInfo": INFO,
                                             "capabilities": capabilities or {}}).result(timeout)
        self.notify("notifications/initialized")
        return result

    def modern(self):
        """From now on every request carries the modern era's envelope."""
        self.envelope = {"io.modelcontextprotocol/protocolVersion": MODERN,
                         "io.modelcontextprotocol/clientCapabilities": {},
                         "io.modelcontextprotocol/clientInfo": INFO}
        return self

    def start(self, name, /, meta=None, **arguments):
        """tools/call without waiting."""
        params = {"name": name, "arguments": arguments}
        if meta:
            params["_meta"] = meta
        return self.request("tools/call", params)

    def finish(self, call, timeout=60):
        result = call.result(timeout)
        return Tool(result, call.took)

    def tool(self, name, /, timeout=60, meta=None, **arguments):
        return self.finish(self.start(name, meta, **arguments), timeout)

    # -- the end

    def alive(self):
        return self.proc.poll() is None

    def rss(self):
        """Of the broker and, where there is one, of the front."""
        return sum(memory(pid) for pid in {self.pid, self.proc.pid})

    def errors(self):
        self.stderr.seek(0)
        return self.stderr.read().decode("utf-8", "replace")

    def explain(self):
        text = self.errors()[-3000:]
        state = "runs" if self.alive() else f"ended with {self.proc.returncode}"
        return f"\n-- the server (pid {self.pid}) {state}; its stderr:\n{text}\n"

    def close(self, timeout=10):
        """End of file on its stdin; waits for its end. Returns the seconds that took."""
        began = time.monotonic()
        if not self.proc.stdin.closed:
            self.proc.stdin.close()
        try:
            self.proc.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            raise AssertionError(f"still there {timeout} s after EOF" + self.explain()) from None
        took = time.monotonic() - began
        self.reader.join(5)
        self.proc.stdout.close()
        return took

    def kill(self, signal=9):
        self.proc.send_signal(signal)
        self.proc.wait(10)
        self.reader.join(5)
