"""Two MCP clients, as small as they can be: over stdio, and over streamable HTTP, each in both eras."""

import http.client
import json
import queue
import subprocess
import threading
import urllib.parse

LEGACY, MODERN = "2025-11-25", "2026-07-28"
WHO = {"name": "session-identity", "version": "1"}
META = "io.modelcontextprotocol/"
TIMEOUT_S = 120


class Failed(Exception):
    """Something is not as it should be; the text says what."""


def message(number, method, params, era):
    """A JSON-RPC request. The modern era has no handshake: each request says by itself who asks."""
    if era == MODERN:
        about = {"protocolVersion": MODERN, "clientInfo": WHO, "clientCapabilities": {}}
        params = {**params, "_meta": {META + name: value for name, value in about.items()}}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def result_of(answer):
    if "error" in answer:
        raise Failed(answer["error"]["message"])
    return answer["result"]


class Stdio:
    """A host with a server that it started: `scb serve`, one line a message."""

    def __init__(self, name, command, era):
        self.name, self.era, self.number = name, era, 0
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        if era == LEGACY:
            hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": WHO}
            self.request("initialize", hello)
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def _send(self, what):
        self.process.stdin.write(json.dumps(what).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, params):
        self.number += 1
        self._send(message(self.number, method, params, self.era))
        while True:
            try:
                answer = self.lines.get(timeout=TIMEOUT_S)
            except queue.Empty:
                raise Failed(f"{self.name}: no answer to {method}") from None
            if answer is None:
                raise Failed(f"{self.name}: the server ended")
            if answer.get("id") == self.number and "method" not in answer:
                return result_of(answer)

    def close(self):
        """The end of its stdin tells the server to go."""
        self.process.stdin.close()
        if self.process.wait(TIMEOUT_S) != 0:
            raise Failed(f"{self.name}: the server ended with status {self.process.returncode}")


class Http:
    """A client with a URL and a token. Each request has a connection of its own, so that nothing but
    what is written in the request can tell the server which session is meant."""

    def __init__(self, name, url, token, era):
        self.name, self.era, self.token, self.number = name, era, token, 0
        self.url = urllib.parse.urlsplit(url)

    def request(self, method, params):
        self.number += 1
        head = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Authorization": "Bearer " + self.token,
            "MCP-Protocol-Version": self.era,
        }
        if self.era == MODERN:
            head["Mcp-Method"] = method
            if "name" in params:
                head["Mcp-Name"] = params["name"]
        body = json.dumps(message(self.number, method, params, self.era))
        connection = http.client.HTTPConnection(self.url.netloc, timeout=TIMEOUT_S)
        connection.request("POST", self.url.path, body, head)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        if answer.status != 200:
            raise Failed(f"{self.name}: HTTP {answer.status}: {text.strip()}")
        return result_of(json.loads(text))
