#!/usr/bin/env python3
"""What `make run` shows: an agent works on a real data set through MCP, in a sandbox.

This program stands where a chat application with its model stands otherwise. The three questions
are asked of one session: what the first call loads, the next ones use.
"""

import base64
import csv
import hashlib
import json
import os
import shlex
import sys
import textwrap
import time

from mcp_stdio import Failed, Server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCB = os.environ.get("SCB") or os.path.join(ROOT, "build", "scb")
DATA = os.path.join(ROOT, "examples", "data")

QUESTIONS = [
    (
        "What is in the file, and how often is a bird expensive?",
        """
        import pandas as pd
        strikes = pd.read_csv("/mnt/data/birdstrikes.csv", parse_dates=["Flight Date"])
        cost = strikes["Cost Total $"]
        day = strikes["Flight Date"]
        print(f"{len(strikes):,} strikes from {day.min():%B %Y} to {day.max():%B %Y}.")
        print(f"{(cost > 0).sum():,} of them cost money, {cost.sum() / 1e6:.1f} million dollars together.")
        """,
    ),
    (
        "Which birds are the expensive ones?",
        """
        costly = strikes[cost > 0].assign(millions=cost / 1e6)
        by_species = (costly.groupby("Wildlife Species")["millions"]
                      .agg(strikes="count", total="sum", worst="max")
                      .sort_values("total", ascending=False))
        by_species.head(5).round(2)
        """,
    ),
    (
        "When in a flight does it happen? Draw it, and save the picture.",
        """
        import matplotlib.pyplot as plt
        by_phase = costly.groupby("Phase of flight")["millions"].sum().sort_values()
        fig, ax = plt.subplots(figsize=(8, 3.5))
        ax.barh(by_phase.index, by_phase, color="#3250d8")
        ax.set(title="Cost of bird strikes by phase of flight", xlabel="million dollars, 1990 to 2002")
        fig.savefig("birdstrikes.png", dpi=150, bbox_inches="tight")
        worst, bird = by_phase.index[-1], by_species.index[0]
        share = (costly[costly["Wildlife Species"] == bird]["Phase of flight"] == worst).mean()
        print(f"{worst} is the expensive phase: {by_phase.iloc[-1]:.1f} million dollars.")
        print(f"{share:.0%} of the costly {bird} strikes happen then.")
        """,
    ),
]

COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if COLOUR else text


def bold(text):
    return paint("1", text)


def dim(text):
    return paint("2", text)


def line(label="", text=""):
    print(f"  {dim(label.ljust(10))}{text}".rstrip(), flush=True)


def duration(seconds):
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def size(n):
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:,.0f} {unit}" if n == int(n) else f"{n:.1f} {unit}"
        n /= 1024


def check(condition, otherwise):
    if not condition:
        raise Failed(otherwise)


def ask(server, session, number, question, code):
    """One question: its code runs in the session's interpreter, its answer is printed."""
    code = textwrap.dedent(code).strip()
    print()
    print(bold(f"  {number}  {question}"), flush=True)
    for text in code.splitlines():
        print(dim(f"     │ {text}"))
    answer, took = server.call("run_code", language="python", code=code, session=session)
    result = answer["structuredContent"]
    if result["status"] != "done" or result["exit"]["reason"] != "exit" or result.get("exitCode"):
        raise Failed("\n".join(c.get("text", "") for c in answer["content"]))
    shown = result.get("stdout", "").splitlines()
    for bundle in result.get("results", []):
        if "image/png" not in bundle["mime"]:
            shown += bundle["mime"]["text/plain"].splitlines()
    figures = sum(c["type"] == "image" for c in answer["content"])
    print(dim(f"     ╰ {duration(took)}"))
    for text in shown:
        print(f"       {text}".rstrip())
    if figures:
        print("       (The picture went to the model, too.)")
    sys.stdout.flush()
    return result


def rows_in_file():
    with open(os.path.join(DATA, "birdstrikes.csv"), newline="", encoding="utf-8") as file:
        return sum(1 for _ in csv.DictReader(file))


def hand_out(server, session):
    """Presents the picture, and reads it back the way a host does: its path for a person."""
    answer, took = server.call(
        "present_output", path="birdstrikes.png", title="Cost of bird strikes", session=session
    )
    output = answer["structuredContent"]
    began = time.monotonic()
    contents = server.request("resources/read", {"uri": output["uri"]})["contents"][0]
    read_took = time.monotonic() - began
    data = base64.b64decode(contents["blob"])
    digest = hashlib.sha256(data).hexdigest()
    check(digest == output["sha256"], f"{output['uri']} reads back with another SHA-256: {digest}")
    check(len(data) == output["bytes"], f"{output['uri']} reads back with {len(data)} bytes")
    with open(output["path"], "rb") as file:
        check(file.read() == data, f"{output['path']} is not what was presented")
    print()
    print(bold("  The file"))
    line("path", output["path"])
    line("", f"{output['mimeType']}, {size(output['bytes'])}, presented in {duration(took)}")
    line("resource", output["uri"])
    line("", f"read back through MCP in {duration(read_took)}, the same to the byte")
    line("sha256", digest)


def describe_sandbox(info):
    limits, held = info["limits"], info["enforced"]
    print()
    print(bold("  The sandbox it ran in"))
    line("provider", f"{info['provider']}, isolation level {info['isolationLevel']}")
    memory = "each process, by rlimit" if held["memory"] == "rlimit" else f"by {held['memory']}"
    cpus = "not limited here" if held["cpu"] == "none" else f"{limits['cpus']}, by {held['cpu']}"
    line("memory", f"{size(limits['memoryBytes'])}, {memory}; /workspace {size(limits['workspaceBytes'])}")
    line("processes", f"{limits['processes']}, by {held['pids']}; CPUs {cpus}")
    line("network", held["egress"])
    line("system", f"root read-only: {held['readOnlyRoot']}, system calls: {held['seccomp']}, "
                   f"host uid: {held['hostUid']}")


def next_step():
    command = [SCB, "serve", "--mount", f"data={DATA}"]
    config = {"mcpServers": {"sandbox": {"command": command[0], "args": command[1:]}}}
    print()
    print(bold("  Give it to your own agent"))
    line("Claude", "Claude Code, in a shell:")
    line("", "claude mcp add sandbox -- " + shlex.join(command))
    line("Desktop", "Claude Desktop, in claude_desktop_config.json:")
    line("", json.dumps(config))
    line("", "With data=FOLDER of your own. README.md has VS Code, and Windows with WSL2.")
    print()


def run():
    began = time.monotonic()
    server = Server([SCB, "serve", "--mount", f"data={DATA}"])
    try:
        hello = server.initialize()
        ready = time.monotonic() - began
        tools = [tool["name"] for tool in server.request("tools/list")["tools"]]
        answer, open_took = server.call("session", action="open")
        session = answer["structuredContent"]["session"]
        answer, info_took = server.call("session", action="info", session=session)
        info = answer["structuredContent"]

        print()
        print(bold("  Sandbox Compute Broker: an agent looks into bird strikes"))
        print()
        line("server", f"{hello['serverInfo']['name']} {hello['serverInfo']['version']}, "
                       f"MCP {hello['protocolVersion']}, answered in {duration(ready)}")
        line("tools", ", ".join(tools))
        line("sandbox", f"{info['provider']}, ready in {duration(open_took + info_took)}")
        line("data", f"{os.path.relpath(DATA)}, inside at /mnt/data, read-only")

        first = None
        for number, (question, code) in enumerate(QUESTIONS, 1):
            result = ask(server, session, number, question, code)
            first = first or result
        check(
            first["stdout"].startswith(f"{rows_in_file():,} strikes"),
            "the sandbox counted other rows than are in the file",
        )
        hand_out(server, session)
        describe_sandbox(info)
        server.call("session", action="close", session=session)
        status = server.close()
        check(status == 0, f"the server ended with status {status}\n{server.log_tail()}")
        next_step()
    finally:
        if server.process.poll() is None:
            server.process.kill()


def main():
    if not os.access(SCB, os.X_OK):
        sys.exit(f"{SCB} is not built yet: make run does that")
    try:
        run()
    except Failed as error:
        print(f"\n{paint('31', 'It did not work.')} {error}", file=sys.stderr)
        print(f"`{os.path.relpath(SCB)} doctor` says what this machine lacks.", file=sys.stderr)
        sys.exit(1)
    except (KeyError, ValueError) as error:
        print(f"\nThe server answered in another shape than expected: {error!r}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
