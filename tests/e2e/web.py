"""web.py: a broker that serves HTTP, and a client of it that sends what it is told to."""
import http.client
import json
import os
import re
import subprocess

from harness import until

MODERN, LEGACY = "2026-07-28", "2025-11-25"
PREFIX = "io.modelcontextprotocol/"


class Web:
    """A broker that serves HTTP."""

    def __init__(self, place, *arguments, **env):
        self.place = place
        self.log = open(os.path.join(place.top, "web.log"), "w+")
        self.tls = "--tls-cert" in arguments
        command = place.command("serve", "--http", "127.0.0.1:0", "--limit", "pool=0", *arguments)
        self.process = subprocess.Popen(command, env=place.environment(**env), cwd=place.home, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.log)
        self.port = None
        until(self.find_port, 10)
        token = os.path.join(place.state, "scb", "http-token")
        self.token = open(token).read() if os.path.exists(token) else None

    def words(self):
        with open(self.log.name) as f:
            return f.read()

    def find_port(self):
        found = re.search(r"https?://127.0.0.1:(\d+)/mcp", self.words())
        if found:
            self.port = int(found.group(1))
        return found or self.process.poll() is not None

    def end(self):
        self.process.terminate()
        printed = self.process.communicate(timeout=20)[0]
        self.log.close()
        return self.process.returncode, printed

    def ask(self, method="POST", path="/mcp", body=None, connection=None, **fields):
        """(status, fields, body)"""
        c = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                "Authorization": f"Bearer {self.token}"}
        head.update({name.replace("_", "-"): value for name, value in fields.items()})
        if isinstance(body, dict):
            body = json.dumps(body)
        c.request(method, path, body, {name: value for name, value in head.items() if value is not None})
        r = c.getresponse()
        data = r.read()
        if not connection:
            c.close()
        return r.status, {name.lower(): value for name, value in r.getheaders()}, data

    def legacy(self, method, params=None, **fields):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return self.ask(body=message, **fields)

    def modern(self, method, params=None, name=None, version=MODERN, **fields):
        params = dict(params or {})
        params["_meta"] = {PREFIX + "protocolVersion": version, PREFIX + "clientCapabilities": {},
                           PREFIX + "clientInfo": {"name": "t", "version": "1"}, **params.get("_meta", {})}
        head = {"MCP_Protocol_Version": version, "Mcp_Method": method}
        if name is not None:
            head["Mcp_Name"] = name
        head.update(fields)
        return self.ask(body={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, **head)

    def tool(self, name, modern=False, **arguments):
        """What the tool answers, whole."""
        params = {"name": name, "arguments": arguments}
        done = self.modern("tools/call", params, name) if modern else self.legacy("tools/call", params)
        assert done[0] == 200, done
        return json.loads(done[2])["result"]
