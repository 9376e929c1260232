#!/usr/bin/python3
"""run.py BUILD: what things cost, one line a figure; p50 and p95 over N runs.

A plain loop over two pipes: the client adds some 20 µs to a call, and nothing here is faster than
what a host would see.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


class Broker:
    def __init__(self, home, *arguments):
        env = {"PATH": os.environ["PATH"], "HOME": home, "XDG_STATE_HOME": home + "/state", "LANG": "C.UTF-8",
               "BROKER_PROVIDER": os.environ.get("BROKER_PROVIDER", "auto")}
        self.began = time.perf_counter()
        self.proc = subprocess.Popen([BUILD + "/scb", "serve", *arguments], env=env, stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
        self.out = os.fdopen(self.proc.stdout.fileno(), "rb", closefd=False)
        self.id = 0

    def request(self, method, params):
        self.id += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}).encode() + b"\n"
        began = time.perf_counter()
        self.proc.stdin.write(line)
        while True:
            answer = self.out.readline()
            took = time.perf_counter() - began
            if not answer:
                raise SystemExit("bench: the broker ended")
            message = json.loads(answer)
            if message.get("id") == self.id:
                break
        if "error" in message:
            raise SystemExit(f"bench: {method}: {message['error']['message']}")
        return message["result"], took

    def tool(self, name, **arguments):
        result, took = self.request("tools/call", {"name": name, "arguments": arguments})
        if result.get("isError"):
            raise SystemExit(f"bench: {name}: {result['content'][0]['text']}")
        return result.get("structuredContent"), took

    def python(self, code, **arguments):
        return self.tool("run_code", language="python", code=code, **arguments)[1]

    def memory(self, field="RssAnon"):
        with open(f"/proc/{self.proc.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(field + ":")) / 1024

    def close(self):
        began = time.perf_counter()
        self.proc.stdin.close()
        self.proc.wait(20)
        return time.perf_counter() - began


def report(name, seconds):
    seconds = sorted(seconds)
    p95 = seconds[min(len(seconds) - 1, int(len(seconds) * 0.95))]
    print(f"{name:<58} {statistics.median(seconds) * 1e3:9.2f} ms   p95 {p95 * 1e3:9.2f} ms   n {len(seconds)}", flush=True)


def figure(name, text):
    print(f"{name:<58} {text}", flush=True)


def main():
    home = tempfile.mkdtemp(prefix="scb-bench-")
    try:
        start, ends = [], []
        for _ in range(20):
            b = Broker(home)
            b.request("initialize", HELLO)
            start.append(time.perf_counter() - b.began)
            ends.append(b.close())
        report("process start to answered initialize", start)
        report("end of input to end of process, no session", ends)

        b = Broker(home)
        b.request("initialize", HELLO)
        idle = b.memory()
        first = b.python("1+1")
        figure("first call of a broker (sandbox and kernel start)", f"{first * 1e3:9.2f} ms")
        for _ in range(200):
            b.python("1+1")
        report("run_code 1+1, live kernel, back to back", [b.python("1+1") for _ in range(2000)])
        gaps = []
        for _ in range(300):
            time.sleep(0.01)
            gaps.append(b.python("1+1"))
        report("run_code 1+1, live kernel, 10 ms apart", gaps)
        report("run_command true", [b.tool("run_command", command="true")[1] for _ in range(100)])
        report("ping", [b.request("ping", {})[1] for _ in range(500)])

        def new_session(code):
            began = time.perf_counter()
            handle = b.tool("session", action="open")[0]["session"]
            b.python(code, session=handle)
            took = time.perf_counter() - began
            return took, b.tool("session", action="close", session=handle)[1]

        both = [new_session("1+1") for _ in range(15)]
        report("new session to first result (Python)", [t for t, _ in both])
        report("session close", [t for _, t in both])
        report("new session to first result (Python, import pandas)", [new_session("import pandas")[0] for _ in range(5)])
        figure("broker's private memory, no session yet", f"{idle:9.2f} MiB")
        figure("broker's private memory, after all this", f"{b.memory():9.2f} MiB")
        before = b.memory()
        b.tool("run_command", command="head -c 2000000000 /dev/zero | tr '\\0' 'y'", timeout_s=60, wait_s=50)
        figure("… moved by a command that prints 2 GB", f"{b.memory() - before:9.2f} MiB")
        b.close()
        for name in ("scb", "scb-agent"):
            stripped = os.path.join(home, name)
            subprocess.run(["strip", "-o", stripped, os.path.join(BUILD, name)], check=True)
            figure(f"size of {name}, stripped", f"{os.path.getsize(stripped) / 1024:9.1f} KiB")
    finally:
        shutil.rmtree(home, True)


main()
