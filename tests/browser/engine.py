#!/usr/bin/python3
"""engine.py: a dashboard in a real kernel, for the page's tests: a JSON line in, a JSON line out.

In the broker's place this only carries: {"code": …} runs a script and answers its tree, {"event": …}
answers what the App would get. Images come as {"image": [mime, base64]}.
"""

import base64
import json
import os
import sys

tests = sys.argv[1]
sys.path.insert(0, os.path.join(tests, "dashboard"))
from dash import Dashboard  # noqa: E402


def answer(one, event):
    if event["type"] in ("poll", "cancel"):
        return {"v": 1, "id": one.key, "seq": event.get("seq"), "status": "ok"}
    got = one.request(op="event", id=one.key, event=event)
    if got.result.traceback:
        return {"failed": str(got.result.traceback)[-500:]}
    for kind in ("page", "tree"):
        if kind + "+json" in got.parts:
            return got.json(kind)
    patches = got.parts.get("patch+json", ())
    if len(patches) == 1:
        return json.loads(patches[0])
    if patches:  # of several steps the App gets what they lead to
        return {**one.request(op="event", id=one.key, event={"type": "open"}).json("tree"), "seq": event.get("seq")}
    mime, data = next((m, d) for m, d in got.parts.items() if m.startswith("image/"))
    return {"image": [mime, base64.b64encode(data).decode()]}


board = None
for line in sys.stdin:
    request = json.loads(line)
    if board is None:
        board = Dashboard(request["code"], key=request["id"], px={"w": 1280, "dpr": 1})
        made = board.tree
    else:
        made = answer(board, request["event"])
    print(json.dumps(made), flush=True)
board.close()
