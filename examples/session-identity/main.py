#!/usr/bin/env python3
"""Which call reaches which sandbox: over stdio and HTTP, with a handle and without, after a crash.

Every line that it prints is a call that it made, and what it says of it is what came back. It checks
each of them against what it claims, and exits with 1 where one is otherwise.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

from clients import LEGACY, MODERN, Failed, Http, Stdio

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCB = os.environ.get("SCB") or os.path.join(ROOT, "build", "scb")

# Runs in every call. It knows nothing of handles: what it finds tells one sandbox from another.
CODE = """
import os, secrets
if not os.path.exists("/workspace/name"):
    open("/workspace/name", "w").write(secrets.token_hex(4))
count = globals().get("count", 0) + 1
print(open("/workspace/name").read(), count)
"""

NEW = object()  # claims a sandbox that no call has reached before
REFUSED = object()

COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
PALETTE = (36, 33, 35, 32, 34, 91, 96, 93)


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


def title(number, text):
    print()
    print(paint("1", f"  {number}  {text}"), flush=True)
    print()


def explain(text):
    print()
    for line in textwrap.wrap(" ".join(text.split()), 88, break_on_hyphens=False):
        print(f"     {line}")
    sys.stdout.flush()


def event(text):
    print(paint("2", f"     · {text}"), flush=True)


class Demo:
    """Where all of it happens: a state directory of its own, so that sessions of yours stay out of it."""

    def __init__(self):
        self.state = tempfile.mkdtemp(prefix="scb-session-identity-")
        self.serve = [SCB, "serve", "--state", self.state]
        self.sandboxes = []  # names that were found inside, in order of appearance
        self.handles = {}  # sandbox number: its session's handle
        self.hosts, self.web, self.url = [], None, None
        self.guest_token = "guest-" + os.urandom(16).hex()
        self.refusals = set()
        self.calls = self.wrong = 0

    # ---- who asks ----

    def host(self, name, era):
        self.hosts.append(Stdio(name, self.serve, era))
        return self.hosts[-1]

    def over_http(self, era, guest=False):
        with open(os.path.join(self.state, "http-token"), encoding="ascii") as file:
            token = self.guest_token if guest else file.read().strip()
        return Http(f"HTTP, {era}" + (", guest" if guest else ""), self.url, token, era)

    def start_http(self):
        tokens = os.path.join(self.state, "guests")
        with open(os.open(tokens, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(f"guest {self.guest_token}\n")
        with open(os.path.join(self.state, "web.log"), "w+b") as log:
            self.web = subprocess.Popen(
                [*self.serve, "--http", "127.0.0.1:0", "--token-file", tokens],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
            )
            end, found = time.monotonic() + 30, None
            while not found and self.web.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
                log.seek(0)
                words = log.read().decode()
                found = re.search(r"http://\S+/mcp", words)
        if not found:
            raise Failed(f"scb serve --http does not serve: {words}")
        self.url = found.group()

    def broker(self):
        with open(os.path.join(self.state, "broker.json"), encoding="utf-8") as file:
            return json.load(file)["pid"]

    # ---- a call, and where it came out ----

    def call(self, who, claim, handle=None, made_up=None):
        """One line: who called, what handle it gave, which sandbox that was. handle: a sandbox's number;
        claim: the number of the sandbox that it must reach and the count there, NEW or REFUSED."""
        self.calls += 1
        arguments = {"language": "python", "code": CODE}
        given = made_up or (handle and self.handles[handle])
        if given:
            arguments["session"] = given
        answer = who.request("tools/call", {"name": "run_code", "arguments": arguments})
        named = f"session {given[:8]}…" if given else "no handle"
        words = f"{paint('1', who.name.ljust(25))}{named:<20}→  "
        if answer.get("isError"):
            text = "".join(part.get("text", "") for part in answer["content"])
            self.refusals.add(text)
            words += paint("31", "refused: " + re.sub(r"^Error \(\w+\): ", "", text).split(":")[0])
            right = claim is REFUSED and len(self.refusals) == 1
        else:
            name, count = answer["structuredContent"]["stdout"].split()
            new = name not in self.sandboxes
            if new:
                self.sandboxes.append(name)
            number = self.sandboxes.index(name) + 1
            self.handles[number] = answer["structuredContent"]["session"]
            words += paint(PALETTE[(number - 1) % len(PALETTE)], f"sandbox {number}   count {count}")
            words += paint("2", "   new") if new else ""
            right = (number, int(count)) == claim if claim is not NEW else new and count == "1"
        if not right:
            self.wrong += 1
            words += paint("1;31", "   that is not what was claimed")
        print(f"     {words}", flush=True)
        return None if answer.get("isError") else number

    # ---- the end ----

    def close(self):
        """Nothing of it stays: sandboxes, servers, the state directory."""
        for host in self.hosts:
            if host.process.poll() is None:
                host.close()
        subprocess.run([SCB, "sessions", "close", "--all", "--state", self.state], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=60)
        if self.web and self.web.poll() is None:
            self.web.terminate()
            self.web.wait(30)
        shutil.rmtree(self.state, ignore_errors=True)


def stdio(demo):
    title(1, "Two hosts, each with a server that it started (scb serve)")
    a, b = demo.host("host A", LEGACY), demo.host("host B", MODERN)
    demo.call(a, NEW)
    demo.call(a, (1, 2))
    demo.call(b, NEW)
    demo.call(a, (1, 3))
    explain("""Over stdio a connection has a session of its own. A call that names none goes there, so that
        a model that forgets the handle finds its variables, and two hosts do not get in each other's
        way, although one broker serves both. A speaks MCP 2025-11-25, B 2026-07-28, which makes no
        difference.""")

    title(2, "The same hosts, with a handle")
    demo.call(b, (1, 4), handle=1)
    demo.call(b, (2, 2))
    explain("""A handle comes first. B names A's session and is in it, as one user may; its own is still
        where a call without one goes.""")
    return a, b


def over_http(demo, a):
    title(3, "HTTP (scb serve --http): no connection, so no session of its own")
    demo.start_http()
    event("scb serve --http has taken the broker's place; the hosts did not notice")
    old, new = demo.over_http(LEGACY), demo.over_http(MODERN)
    demo.call(old, NEW)
    demo.call(old, NEW)
    mine = demo.call(new, NEW)
    demo.call(new, (mine, 2), handle=mine)
    demo.call(old, (mine, 3), handle=mine)
    demo.call(new, (1, 5), handle=1)
    demo.call(a, (1, 6))
    explain("""Nothing but a handle says where an HTTP call belongs, in either era: there is no
        Mcp-Session-Id. Without one each call gets a new sandbox, which is the first to make room when
        it is not named again within two minutes. With one it reaches that sandbox, whoever made it:
        the last two calls, over HTTP and over stdio, are in the one of host A.""")

    title(4, "Another token is somebody else")
    guest = demo.over_http(MODERN, guest=True)
    demo.call(guest, REFUSED, handle=1)
    demo.call(guest, REFUSED, made_up="s-" + "0" * 32)
    explain("""A session belongs to its principal: on stdio and with the state directory's own token the
        user, with a token of --token-file the one that it names. A foreign handle is answered word for
        word as one that never was.""")
    return mine


def killed(demo, a, b, mine):
    title(5, "The broker is killed with kill -9")
    before = demo.broker()
    os.kill(before, signal.SIGKILL)
    demo.web.wait(30)
    demo.call(a, (1, 7))
    demo.call(b, (2, 3))
    event("host A's server has started another broker" if demo.broker() != before else "the same broker")
    demo.start_http()
    event("scb serve --http was started again, by hand: it is nobody's child")
    new = demo.over_http(MODERN)
    demo.call(new, (mine, 4), handle=mine)
    demo.call(new, NEW)
    explain("""Sandboxes are no children of the broker. The next one finds them by their records, with
        every variable: the counts go on. Over stdio the connection's own session is found again, too.""")


def restarted(demo, b):
    title(6, "A host is closed, and opened again")
    b.close()
    again = demo.host("host B, again", MODERN)
    demo.call(again, (2, 4), handle=2)
    demo.call(again, NEW)
    explain("""A new connection has a new session of its own. The old one still runs (15 minutes after its
        last call it ends) and is there for whoever names it. That is why each result begins with its
        handle, and tells the model to pass it on.""")


def closed(demo, a):
    title(7, "A session is closed")
    a.request("tools/call", {"name": "session", "arguments": {"action": "close", "session": demo.handles[2]}})
    event(f"session {demo.handles[2][:8]}… closed, and its sandbox gone")
    demo.call(a, REFUSED, handle=2)
    demo.call(a, (1, 8))
    explain("""What is closed is not opened anew behind a caller's back: its variables would not be there,
        and nobody would know. The error says what to do instead.""")


def summary():
    print()
    print(paint("1", "  In short"))
    print()
    for when, what in (
        ("a handle is given", "that session, over stdio and HTTP, in both eras, after any restart"),
        ("none, over stdio", "the connection's own, made at its first call"),
        ("none, over HTTP", "a new one each time"),
        ("not one's own, or gone", "an error, always the same, and never another sandbox"),
    ):
        print(f"     {when:<26}{what}")
    print()


def run(demo):
    print()
    print(paint("1", "  Which call reaches which sandbox?"))
    explain("""Each line below is one call of run_code, always with the same few lines of Python: they count,
        in a variable, how often they ran there. A count that goes on is the same interpreter; a count
        of 1 is a new one. Sandboxes are numbered by a name that the code itself left in them.""")
    a, b = stdio(demo)
    mine = over_http(demo, a)
    killed(demo, a, b, mine)
    restarted(demo, b)
    closed(demo, a)
    summary()


def main():
    if not os.access(SCB, os.X_OK):
        sys.exit(f"{SCB} is not built yet: make build does that")
    demo = Demo()
    try:
        run(demo)
    except Failed as error:
        print(f"\n{paint('31', 'It did not work.')} {error}", file=sys.stderr)
        print(f"`{os.path.relpath(SCB)} doctor` says what this machine lacks.", file=sys.stderr)
        sys.exit(1)
    finally:
        demo.close()
    if demo.wrong:
        sys.exit(f"{demo.wrong} of {demo.calls} calls came out elsewhere than claimed")
    print(paint("2", f"  {demo.calls} calls, each where it was said to be.\n"))


if __name__ == "__main__":
    main()
