"""scenarios.py: what a client does while brokers are killed under it, and how two runs are compared.

A scenario is a list of steps, each a function of a Run; it may call tools and returns nothing: what
the client is answered goes into the run's transcript by itself. Every answer must come, whatever
happens to the broker.
"""
import hashlib
import json
import re
import time

ID = re.compile(r"\b([sjox])-[0-9a-f]{32}\b")
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
# Each place of a test may have a user of its own.
PRINCIPAL = re.compile(r"\buid([:-])\d+(?:-[0-9a-f]{16})?\b")
SHELF = re.compile(r"/\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.\d{3}_[0-9a-f]{8}/")


class Names:
    """Ids by the order in which they appear: two runs have different ones."""

    def __init__(self):
        self.seen = {}

    def __call__(self, match):
        kind, text = match.group(1), match.group(0)
        known = self.seen.setdefault(kind, {})
        return f"{kind}-{known.setdefault(text, len(known) + 1)}"


def normal_text(text, names, top):
    text = ID.sub(names, text)
    text = STAMP.sub("TIME", text)
    text = text.replace(top, "TOP")
    text = PRINCIPAL.sub(r"uid\1N", text)
    text = SHELF.sub("/SHELF/", text)
    text = re.sub(r"\b\d+(?:\.\d+)? (?:ms|s)\b", "DURATION", text)
    return text


UNCOMPARED = {"durationMs", "expiresAt", "createdAt", "startedAt", "mtime", "mtimeMs", "modified", "usage",
              "timeMs", "modifiedAt"}


def normal(value, names, top):
    if isinstance(value, dict):
        return {k: normal(v, names, top) for k, v in value.items() if k not in UNCOMPARED}
    if isinstance(value, list):
        return [normal(v, names, top) for v in value]
    if isinstance(value, str):
        return normal_text(value, names, top)
    return value


def normal_audit(events, top):
    """The log without what two runs may differ in: whose broker wrote it, when, and how long. Sorted by
    call, job and session: what goes on at the same time has no order among itself."""
    names, deliveries, lines = Names(), {}, []
    for e in events:
        if e["event"].startswith(("broker.", "audit.", "policy.load")):
            continue
        e = {k: v for k, v in e.items() if k not in ("ts", "seq", "run", "durationMs", "prev", "hash")}
        if "delivery" in e:
            e["delivery"] = deliveries.setdefault(e["delivery"], len(deliveries) + 1)
        if e["event"] == "tool.end":
            e.pop("bytesOut", None)  # of an answer with times in it
        e = normal(e, names, top)
        owner = f"call {e['delivery']:03}" if "delivery" in e else e.get("job") or e.get("session") or ""
        lines.append((owner, json.dumps(e, sort_keys=True)))
    return [line for _, line in sorted(lines, key=lambda pair: pair[0])]


class Run:
    """One client's day: a transcript of normalized answers."""

    def __init__(self, client, top):
        self.client, self.top = client, top
        self.names = Names()
        self.transcript = []
        self.session = None

    def note(self, what, value):
        self.transcript.append(json.dumps(normal([what, value], self.names, self.top), sort_keys=True))

    def tool(self, name, **arguments):
        r = self.client.tool(name, timeout=90, **arguments)
        self.note([name, arguments], r.result)
        return r

    def sh(self, command, **arguments):
        return self.tool("run_command", command=command, session=self.session, **arguments)

    def py(self, code, **arguments):
        return self.tool("run_code", language="python", code=code, session=self.session, **arguments)


# ---- steps ----

def open_session(run):
    run.session = run.tool("session", action="open").session


def cell(run):
    assert run.py("x = 41").exitCode == 0
    assert run.py("x += 1; x").exitCode == 0
    r = run.py("print(x)")
    assert r.stdout == "42\n", str(r)  # added once


def keyed_loop(run):
    code = "import time\nfor i in range(12):\n    print(i, flush=True)\n    time.sleep(.02)"
    first = run.py(code, idempotency_key="loop")
    again = run.py(code, idempotency_key="loop")
    assert first.stdout == again.stdout == "".join(f"{i}\n" for i in range(12)), str(first)


def command(run):
    r = run.sh("echo once >> log; echo out; echo err >&2; exit 3")
    assert (r.stdout, r.stderr, r.exitCode) == ("out\n", "err\n", 3), str(r)
    assert run.sh("cat log").stdout == "once\n"


def handle_and_input(run):
    r = run.sh("while read line; do echo \"got $line\"; done", stdin_open=True, wait_s=0)
    job = r.job
    run.tool("job", action="input", job=job, input="one\n")
    run.tool("job", action="input", job=job, input="two\n", close=True)
    done = run.tool("job", action="wait", job=job)
    assert done.stdout == "got one\ngot two\n", str(done)
    run.tool("job", action="read", job=job, stream="stdout", offset=4, length=3)


def signal(run):
    job = run.sh("sleep 60", wait_s=0).job
    run.tool("job", action="signal", job=job, signal="TERM")
    r = run.tool("job", action="wait", job=job)
    assert r.reason == "signal", str(r)


def cancel(run):
    call = run.client.start("run_code", language="python", session=run.session,
                            code="import time\nwhile True: time.sleep(.01)")
    time.sleep(0.3)
    run.client.notify("notifications/cancelled", {"requestId": call.id, "reason": "enough"})
    r = run.py("1 + 1")
    assert r.exitCode == 0, str(r)


def files(run):
    f = {"session": run.session}
    run.tool("files", action="write", path="a.txt", content="alpha\n", **f)
    run.tool("files", action="write", path="a.txt", content="beta\n", append=True, **f)
    run.tool("files", action="write", path="a.txt", content="beta\n", append=True, **f)
    run.tool("files", action="edit", path="a.txt", old_text="alpha", new_text="gamma", **f)
    run.tool("files", action="mkdir", path="d", **f)
    run.tool("files", action="move", path="a.txt", target="d/b.txt", **f)
    r = run.tool("files", action="read", path="d/b.txt", **f)
    assert not r.is_error and r.data["text"] == "gamma\nbeta\nbeta\n", str(r)
    run.tool("files", action="write", path="gone.txt", content="x", **f)
    r = run.tool("files", action="delete", path="gone.txt", **f)
    assert not r.is_error, str(r)
    run.tool("files", action="list", path=".", **f)
    run.tool("files", action="search", pattern="gamma", **f)


def present(run):
    r = run.tool("present_output", path="d/b.txt", title="what was written", session=run.session)
    got = run.client.request("resources/read", {"uri": r.uri}).result(90)
    text = got["contents"][0]["text"]
    assert hashlib.sha256(text.encode()).hexdigest() == r.sha256
    run.note("resources/read", got)
    listed = run.client.request("resources/list").result(90)
    presented = [r for r in listed["resources"] if r["uri"].startswith("resource://")]
    assert len(presented) == 1, listed


def restart(run):
    run.tool("session", action="restart", session=run.session)
    r = run.py("'x' in globals()")
    assert "False" in r.text, str(r)


def close_session(run):
    run.tool("session", action="close", session=run.session)
    r = run.tool("session", action="info", session=run.session)
    assert r.is_error, str(r)


def implicit(run):
    """No handle: the connection's own session, from its first call on."""
    assert run.tool("run_code", language="python", code="y = 1").exitCode == 0
    r = run.tool("run_code", language="python", code="y + 1")
    assert r.exitCode == 0, str(r)
    run.session = r.session


SCENARIOS = {
    "cells": [open_session, cell, keyed_loop, restart, close_session],
    "commands": [implicit, command, handle_and_input, signal, cancel, close_session],
    "files": [open_session, files, present, close_session],
}
