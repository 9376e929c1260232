#!/usr/bin/env python3
"""Three dashboards on real data, as a model writes them, and what comes back to it over MCP.

A host that shows MCP Apps draws each as a page in the chat. This program stands where such a host
and its model stand: it shows the dashboard, then moves its controls as the page does, and prints
what ran again for that and how long it took.
"""

import ast
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "first-run"))

from mcp_stdio import Failed, Server  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(HERE))
SCB = os.environ.get("SCB") or os.path.join(ROOT, "build", "scb")
DATA = os.path.join(ROOT, "examples", "data")
COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ

MOVES = {
    "strikes.py": [{"Size": ["Large"]}, {"State": "California"}, {"Daytime only": True}, {"Cost at least": 20000}],
    "year.py": [{"Mean over": "1 day"}, {"Measure": "wind"}, {"Hours of the day": [6, 18]}],
    "costs.py": [{"Rows": 5}, {"By": "Phase of flight"}, {"Without the unknown": False}],
}


def bold(text):
    return f"\033[1m{text}\033[0m" if COLOUR else text


def dim(text):
    return f"\033[2m{text}\033[0m" if COLOUR else text


def called(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def move(server, dashboard, values, seq):
    """One move of a control. Asks on while it runs, as the page does."""
    began = time.monotonic()
    event = {"type": "set", "seq": seq, "values": values}
    while True:
        answer, _ = server.call("dashboard_event", dashboard=dashboard, event=event)
        state = answer["structuredContent"]
        if state["status"] != "running":
            break
        event = {"type": "poll", "seq": seq, "wait_s": 20}
    if state["status"] != "ok":
        raise Failed(f"{values} ended with {state['status']}")
    return state, time.monotonic() - began


def units(code):
    """How many top-level statements there are: what may run again, or not."""
    return len(ast.parse(code).body)


def show(server, session, name):
    with open(os.path.join(HERE, name), encoding="utf-8") as f:
        code = f.read()
    began = time.monotonic()
    answer, _ = server.call("data_dashboard", code=code, session=session)
    outline = answer["structuredContent"]
    took = time.monotonic() - began
    if outline["status"] != "ok":
        raise Failed(answer["content"][0]["text"])
    print()
    print(bold(f"  {outline['title']}") + dim(f"   {name}, {len(code.splitlines())} lines, {took * 1000:.0f} ms"))
    for line in answer["content"][0]["text"].splitlines():
        if not line.startswith(("session ", "Dashboard ", "Change a control")):
            print(f"     {line}")
    for seq, values in enumerate(MOVES[name], 1):
        state, took = move(server, outline["dashboard"], values, seq)
        (label, value), = values.items()
        print(dim("     ↻ ") + f"{label} = {called(value)}" +
              dim(f"   {len(state['ran'])} of {units(code)} statements ran again, {took * 1000:.0f} ms"))
        for node in state["set"].values():
            if node["t"] == "metric":
                text = node.get("text") or f"{node.get('value', 0):,.0f}"
                print(f"         {node['label']}: {text}")
    return len(MOVES[name])


def main():
    server = Server([SCB, "serve", "--mount", f"data={DATA}"])
    try:
        server.initialize()
        answer, _ = server.call("session", action="open")
        session = answer["structuredContent"]["session"]
        moves = sum(show(server, session, name) for name in MOVES)
        page = server.request("resources/read", {"uri": "ui://scb/dashboard.html"})["contents"][0]
        print()
        print(f"  {len(MOVES)} dashboards, {moves} moves. The page that a host shows for each: {page['uri']}, "
              f"{len(page['text']) / 1000:.0f} KB of HTML.")
        server.call("session", action="close", session=session)
    finally:
        server.close()


if __name__ == "__main__":
    try:
        main()
    except (Failed, KeyError) as e:
        sys.exit(f"{type(e).__name__}: {e}")
