"""scb.py: `scb serve` as a host drives it: lines over two pipes."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from clock import Stopwatch

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


class Place:
    """A home of its own, where nothing of the person's is found or left."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.top = tempfile.mkdtemp(prefix="scb-bench-")
        self.run = os.path.join(self.top, "run")
        os.mkdir(self.run, 0o700)

    def environment(self, **more):
        env = {"PATH": os.environ["PATH"], "HOME": self.top, "XDG_STATE_HOME": self.top + "/state",
               "XDG_RUNTIME_DIR": self.run, "LANG": "C.UTF-8",
               "BROKER_PROVIDER": os.environ.get("BROKER_PROVIDER", "auto"), **more}
        return env

    def brokers(self):
        """The processes that hold this place's audit log open: whoever is broker here."""
        found = []
        for path in glob.glob("/proc/[0-9]*/fd/*"):
            try:
                if os.readlink(path).startswith(self.top + "/state/") and path.split("/")[2] not in found:
                    found.append(path.split("/")[2])
            except OSError:
                pass
        return [int(pid) for pid in found]

    def close(self):
        """Its sessions would outlive it."""
        if not os.path.exists(self.top):
            return
        if self.brokers():
            subprocess.run([self.build + "/scb", "sessions", "close", "--all"], timeout=30,
                           env=self.environment(), capture_output=True)
        end = time.monotonic() + 10
        while self.brokers() and time.monotonic() < end:
            time.sleep(0.05)
        for pid in self.brokers():
            os.kill(pid, signal.SIGTERM)
        shutil.rmtree(self.top, True)


class Server:
    """One `scb serve`, initialized."""

    def __init__(self, place, *arguments, **env):
        self.place = place
        began = time.perf_counter()
        self.proc = subprocess.Popen([place.build + "/scb", "serve", *arguments], env=place.environment(**env),
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                     bufsize=0)
        self._in, self._out = self.proc.stdin.fileno(), self.proc.stdout.fileno()
        self._id = 0
        self._call(self.encode("initialize", HELLO))
        self.started = time.perf_counter() - began

    def encode(self, method, params):
        self._id += 1
        return json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}).encode() + b"\n"

    def _call(self, line):
        """Sends a request and reads up to its answer, which is not parsed yet."""
        os.write(self._in, line)
        answer = os.read(self._out, 1 << 16)
        while not answer.endswith(b"\n"):
            more = os.read(self._out, 1 << 16)
            if not more:
                raise SystemExit("bench: the broker ended")
            answer += more
        return answer

    def _check(self, answer):
        message = json.loads(answer.splitlines()[-1])
        if "error" in message or message["result"].get("isError"):
            raise SystemExit(f"bench: {str(message)[:600]}")
        return message["result"]

    def tool(self, name, /, **arguments):
        return self._check(self._call(self.encode("tools/call", {"name": name, "arguments": arguments}))) \
            .get("structuredContent")

    def time_tool(self, name, /, **arguments):
        """A Stopwatch of the call alone: what is sent is ready before, what comes is read after."""
        line = self.encode("tools/call", {"name": name, "arguments": arguments})
        with Stopwatch() as watch:
            answer = self._call(line)
        self._check(answer)
        return watch

    def actions(self, name):
        """What a tool's argument `action` may be."""
        tools = self._check(self._call(self.encode("tools/list", {})))["tools"]
        tool = next(tool for tool in tools if tool["name"] == name)
        return tool["inputSchema"]["properties"]["action"]["enum"]

    def open(self):
        return self.tool("session", action="open")["session"]

    def close_session(self, handle):
        self.tool("session", action="close", session=handle)

    def close(self):
        for handle in set(re.findall(r"s-[0-9a-f]{32}", json.dumps(self.tool("session", action="list")))):
            self.close_session(handle)
        self.proc.stdin.close()
        self.proc.wait(20)


def memory(pid):
    """RSS, PSS and private memory in MiB."""
    values = {"Rss": 0, "Pss": 0, "Private_Clean": 0, "Private_Dirty": 0}
    with open(f"/proc/{pid}/smaps_rollup") as f:
        for line in f:
            name = line.split(":")[0]
            if name in values:
                values[name] = int(line.split()[1]) / 1024
    return values["Rss"], values["Pss"], values["Private_Clean"] + values["Private_Dirty"]


def below(pid, word, begin=""):
    """The processes below pid whose command line begins with begin and holds word."""
    parents = {}
    for entry in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(entry) as f:
                parents[int(entry.split("/")[2])] = int(f.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass
    found = []
    for candidate in parents:
        at = candidate
        while at in parents and at != pid:
            at = parents[at]
        try:
            with open(f"/proc/{candidate}/cmdline") as f:
                line = f.read()
                if at == pid and candidate != pid and word in line and line.startswith(begin):
                    found.append(candidate)
        except OSError:
            pass
    return found
