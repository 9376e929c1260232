"""A Model Context Protocol client over stdio, as small as it can be.

An MCP server on stdio is a child process. Each message is one line of JSON (JSON-RPC 2.0): requests
go to its stdin, answers come from its stdout. Its stderr is for people.
"""

import json
import subprocess
import tempfile
import threading
import time

PROTOCOL = "2025-11-25"


class Failed(Exception):
    """Something is not as it should be; the text says what."""


class Server:
    def __init__(self, command):
        self.log = tempfile.TemporaryFile()
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
            )
        except OSError as error:
            raise Failed(f"cannot start {command[0]}: {error.strerror}") from None
        self.next_id = 0

    def _send(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed("the server has gone away\n" + self.log_tail()) from None

    def request(self, method, params=None, timeout_s=120):
        """Sends a request and waits for its answer."""
        self.next_id += 1
        self._send({"id": self.next_id, "method": method, "params": params or {}})
        # A server that never answers must not hold us for ever.
        watchdog = threading.Timer(timeout_s, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stdout:
                message = json.loads(line)
                if message.get("id") != self.next_id or "method" in message:
                    continue  # a notification, such as progress
                if "error" in message:
                    raise Failed(f"{method}: {message['error']['message']}")
                return message["result"]
        finally:
            watchdog.cancel()
        raise Failed(f"{method}: no answer\n" + self.log_tail())

    def initialize(self):
        """The handshake: both sides say who they are and which protocol they speak."""
        answer = self.request(
            "initialize",
            {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": "first-run", "version": "1"},
            },
        )
        self._send({"method": "notifications/initialized"})
        return answer

    def call(self, tool, **arguments):
        """Calls a tool: (its answer, seconds it took)."""
        began = time.monotonic()
        answer = self.request("tools/call", {"name": tool, "arguments": arguments})
        took = time.monotonic() - began
        if answer.get("isError"):
            raise Failed(f"{tool}: " + "\n".join(c.get("text", "") for c in answer["content"]))
        return answer, took

    def close(self):
        """The end of its stdin tells the server to stop: its exit status."""
        self.process.stdin.close()
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed("the server did not end when its stdin did") from None

    def log_tail(self):
        self.log.seek(0)
        return self.log.read()[-2000:].decode(errors="replace").strip()
