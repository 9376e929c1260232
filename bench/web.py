"""web.py: `scb serve --http` beside MCP's reference server, under the same load (load.c).

The peer is @modelcontextprotocol/server-everything from npm, on npm's Node where that came, in
production mode, its log thrown away. Both are asked in the same way: 2025-11-25, kept connections,
one request at a time on each. Requests per processor second count the server's own processor time;
for run_code also that of the sandboxes.
"""
import array
import glob
import json
import os
import re
import resource
import shutil
import subprocess
import time
import urllib.request

from report import Row
from scb import memory

HERE = os.path.dirname(os.path.abspath(__file__))
MS = int(os.environ.get("BENCH_HTTP_MS", "2000"))
IDLE = int(os.environ.get("BENCH_IDLE", "10000"))
STREAMS = int(os.environ.get("BENCH_STREAMS", "1000"))
SESSIONS, KERNELS = 8, 2  # a kernel runs one cell at a time, and 16 may wait: room for 256
TICK = os.sysconf("SC_CLK_TCK")


def _raise_descriptors():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _cpu(pid, tree):
    """Processor seconds of a process, or of all below it, too."""
    used, parents = {}, {}
    for path in glob.glob("/proc/[0-9]*/stat") if tree else [f"/proc/{pid}/stat"]:
        try:
            with open(path) as f:
                fields = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        each = int(path.split("/")[2])
        parents[each] = int(fields[1])
        used[each] = (int(fields[11]) + int(fields[12])) / TICK
    total = 0
    for each, seconds in used.items():
        at = each
        while at in parents and at != pid:
            at = parents[at]
        total += seconds if at == pid else 0
    return total


def _wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit("bench: a server does not come up")


class Web:
    """A server at /mcp of a local port: how it is asked, and what it costs."""

    port = pid = None
    head = {}

    def encode(self, method, params):
        """A request as it is sent."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        head = {"Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25",
                "Content-Length": len(body), **self.head}
        lines = [f"{name}: {value}" for name, value in head.items()]
        return "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", body]).encode()

    def ask(self, method, params):
        """(the answer's head, its message)"""
        head, body = self.encode(method, params).split(b"\r\n\r\n", 1)
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/mcp", body, fields)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
        message = json.loads(re.search(r"^(?:data: )?(\{.*)$", text, re.M).group(1))
        if "error" in message or message["result"].get("isError"):
            raise SystemExit(f"bench: {str(message)[:500]}")
        return answer.headers, message["result"]

    def tool(self, name, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})[1]


class Ours(Web):
    def __init__(self, bench):
        self.place = bench.place()
        log = self.place.top + "/log"
        with open(log, "w") as f:
            self.process = subprocess.Popen(
                [self.place.build + "/scb", "serve", "--http", "127.0.0.1:0", "--limit", f"sessions_principal={SESSIONS}"],
                env=self.place.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=f,
                preexec_fn=_raise_descriptors)
        self.port = int(_wait_for(lambda: re.search(r"http://127.0.0.1:(\d+)/mcp", open(log).read())).group(1))
        self.pid = self.process.pid
        with open(self.place.top + "/state/scb/http-token") as f:
            self.head = {"Authorization": "Bearer " + f.read()}

    def open(self):
        return self.tool("session", action="open")["structuredContent"]["session"]

    def close(self):
        self.place.close()
        self.process.wait(30)


class Everything(Web):
    def __init__(self, bench):
        where, node, version = installed(bench.build)
        server = os.path.join(where, "node_modules/@modelcontextprotocol/server-everything/dist/index.js")
        self.name = f"server-everything on Node {version}"
        self.port = _free_port()
        self.process = subprocess.Popen(
            [node, server, "streamableHttp"], cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=_raise_descriptors,
            env={"PATH": os.environ["PATH"], "HOME": where, "PORT": str(self.port), "NODE_ENV": "production"})
        self.pid = self.process.pid
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        answer = _wait_for(lambda: self._try(hello))
        self.head = {"Mcp-Session-Id": answer["mcp-session-id"]}

    def _try(self, hello):
        try:
            return self.ask("initialize", hello)[0]
        except OSError:
            return None

    def close(self):
        self.process.terminate()
        self.process.wait(30)


def _free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def installed(build):
    """Where the peer is, the Node for it and its version; None where there is none to be had."""
    where, lock = os.path.join(os.path.abspath(build), "bench-everything"), os.path.join(HERE, "everything/package-lock.json")
    have = os.path.join(where, "node_modules/.package-lock.json")
    if not shutil.which("npm"):
        return None
    if not os.path.exists(have) or os.path.getmtime(have) < os.path.getmtime(lock):
        shutil.copytree(os.path.join(HERE, "everything"), where, dirs_exist_ok=True)
        if subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=where,
                          capture_output=True).returncode != 0:
            return None
    for node in (*glob.glob(where + "/node_modules/node-linux-*/bin/node"), "node"):
        try:
            return where, node, subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
        except OSError:
            pass
    return None


def _load(bench, *arguments):
    return [os.path.join(bench.build, "bench", "load"), *map(str, arguments)]


def _requests(requests):
    return b"".join(b"%d\n%s" % (len(r), r) for r in requests) + b"0\n"


class Load:
    """One run of the load generator: what it got of the server."""

    def __init__(self, bench, server, requests, connections, tree=False):
        before = _cpu(server.pid, tree)
        done = subprocess.run(_load(bench, "run", server.port, connections, MS), input=_requests(requests),
                              capture_output=True)
        if done.returncode:
            raise SystemExit(f"bench: {done.stderr.decode()[:500]}")
        cpu = _cpu(server.pid, tree) - before
        line, raw = done.stdout.split(b"\n", 1)
        told = json.loads(line)
        self.latencies = array.array("f", raw).tolist()
        self.per_second = told["requests"] / told["seconds"]
        self.per_cpu = told["requests"] / max(cpu, 1 / TICK)
        self.generator = told["cpu"] / told["seconds"]


def _rows(bench, name, ours, peer, ratio=None):
    """ours, peer: (server, requests, whether its children count); peer may be None."""
    for each in (ours, peer):  # what is compiled at run time is, by then
        if each:
            Load(bench, *each[:2], 16)
    for connections in (1, 16, 256):
        a = Load(bench, *ours[:2], connections, ours[2])
        b = Load(bench, *peer[:2], connections, peer[2]) if peer else None
        each = f"HTTP {name}, {connections} connection{'s' if connections > 1 else ''}"
        yield Row(each + ": requests", "/s", a.per_second, b and b.per_second, more=True,
                  note=f"the generator used {a.generator:.2f} processors" + (f", {b.generator:.2f}" if b else ""))
        yield Row("  … per second of the server's processor", "/s", a.per_cpu, b and b.per_cpu, ratio=ratio, more=True)
        yield Row("  … answered within", "ms", a.latencies, b and b.latencies)


def _warm_kernels(server):
    """A request for each of the kernels, which are all there and have run once."""
    requests = []
    for _ in range(SESSIONS):
        session = server.open()
        for kernel in range(KERNELS):
            arguments = {"session": session, "kernel": f"k{kernel}", "code": "1+1"}
            server.tool("run_code", **arguments)
            requests.append(server.encode("tools/call", {"name": "run_code", "arguments": arguments}))
    return requests


def http(bench):
    ours = Ours(bench)
    peer = Everything(bench) if installed(bench.build) else None
    listing = [ours.encode("tools/list", {})], peer and [peer.encode("tools/list", {})]
    sizes = [len(json.dumps(s.ask("tools/list", {})[1])) for s in (ours, peer) if s]
    resident = [memory(s.pid)[0] for s in (ours, peer) if s]
    yield Row("HTTP server: resident, one client, nothing run", "MiB", resident[0], resident[1:] or None, ratio=1 / 10,
              note=f"the peer: {peer.name}" if peer else "npm has no peer to give")
    yield Row("  … its tools/list", "bytes", sizes[0], sizes[1:] or None)
    yield from _rows(bench, "tools/list", (ours, listing[0], False), peer and (peer, listing[1], False), ratio=20)
    resident = [memory(s.pid)[0] for s in (ours, peer) if s]
    yield Row("HTTP server: resident, after that", "MiB", resident[0], resident[1:] or None, ratio=1 / 10)
    echo = peer and [peer.encode("tools/call", {"name": "echo", "arguments": {"message": "1+1"}})]
    yield from _rows(bench, "run_code (the peer: echo)", (ours, _warm_kernels(ours), True),
                     peer and (peer, echo, False))
    for server in (ours, peer):
        if server:
            server.close()


class Held:
    """Connections that stay as long as this is open."""

    def __init__(self, bench, server, requests, connections):
        self.process = subprocess.Popen(_load(bench, "hold", server.port, connections), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_raise_descriptors)
        self.process.stdin.write(_requests(requests))
        self.process.stdin.flush()
        self.wait()

    def wait(self):
        """Until each has got (more of) an answer."""
        if not self.process.stdout.readline():
            raise SystemExit(f"bench: {self.process.stderr.read().decode()[:500]}")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.communicate()


def connections(bench):
    """Connections that only are there, each after one answer; and event streams of calls that run."""
    server = Ours(bench)
    server.ask("tools/list", {})
    idle = min(IDLE, resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 100)
    before = memory(server.pid)[0]
    with Held(bench, server, [server.encode("tools/list", {})], idle):
        grown = memory(server.pid)[0] - before
        cpu, began = _cpu(server.pid, False), time.monotonic()
        time.sleep(5)
        cpu = (_cpu(server.pid, False) - cpu) / (time.monotonic() - began)
        yield Row(f"HTTP, {idle:,} idle connections: each", "KiB", grown * 1024 / idle)
        yield Row("  … processor time in a second", "ms", cpu * 1e3)
    server.close()
    server, requests = Ours(bench), []
    for _ in range(SESSIONS):
        session = server.open()
        job = server.tool("run_command", session=session, command="sleep 100", wait_s=0)["structuredContent"]["job"]
        arguments = {"action": "wait", "session": session, "job": job, "wait_s": 50}
        requests.append(server.encode("tools/call", {"name": "job", "arguments": arguments, "_meta": {"progressToken": 1}}))
    before = memory(server.pid)[0]
    with Held(bench, server, requests, STREAMS) as held:
        grown = memory(server.pid)[0] - before
        cpu, began = _cpu(server.pid, False), time.monotonic()
        held.wait()  # each has got another event
        cpu = (_cpu(server.pid, False) - cpu) / (time.monotonic() - began)
        yield Row(f"HTTP, {STREAMS:,} calls with an open event stream: each", "KiB", grown * 1024 / STREAMS)
        yield Row("  … processor time in a second", "ms", cpu * 1e3)
    server.close()
