"""Drives dashboards through a real kernel, as the broker does, and keeps the tree as the App does."""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path[:0] = [TESTS, os.path.join(TESTS, "kernel")]
sys.dont_write_bytecode = True
from driver import CELL, CODE, STDIN_MODE, Kernel, tlv  # noqa: E402

PREFIX = "application/vnd.scb.dashboard."


class Answer:
    """What one request showed, by type."""

    def __init__(self, result):
        self.result = result
        self.parts = {}
        for _, mimes, skipped in result.shown:
            assert not skipped, skipped
            for mime, data in mimes.items():
                self.parts.setdefault(mime.replace(PREFIX, ""), []).append(data)

    def json(self, kind):
        return json.loads(self.parts[kind + "+json"][-1], parse_constant=lambda text: 1 / 0)

    @property
    def text(self):
        return self.parts["text"][-1].decode()


class Dashboard:
    """One dashboard in a kernel of its own, or in one that is given."""

    def __init__(self, code, kernel=None, key="d-00000000test", title=None, px=None):
        self.own = kernel is None
        self.kernel = kernel or Kernel()
        self.key = key
        self.last = None
        self.load(code, "new", title=title, px=px)

    def request(self, **request):
        self.kernel.send(CELL, tlv(CODE, b"dashboard\0" + json.dumps(request).encode()) + tlv(STDIN_MODE, b"\1"))
        self.last = Answer(self.kernel.finish())
        return self.last

    def load(self, code, op="edit", **more):
        answer = self.request(op=op, id=self.key, code=code, **more)
        assert not answer.result.traceback, answer.result.traceback
        self.tree = answer.json("tree")
        return answer

    def event(self, kind, **event):
        return self.request(op="event", id=self.key, event={"type": kind, **event})

    def set(self, **values):
        answer = self.event("set", values=values)
        assert not answer.result.traceback, answer.result.traceback
        return self.merge(answer)

    def click(self, label):
        return self.merge(self.event("click", id=label))

    def merge(self, answer):
        """Applies the patches, as the App does; returns the last one."""
        sys.path.insert(0, os.path.join(os.path.dirname(TESTS), "kernels", "python"))
        from scb_dash import wire

        for part in answer.parts["patch+json"]:
            patch = json.loads(part)
            assert patch["from"] <= self.tree["rev"] < patch["rev"], (patch["from"], self.tree["rev"])
            wire.apply(self.tree["tree"], patch)
            for name in ("rev", "status", "notes", "title"):
                self.tree[name] = patch[name]
        return patch

    def close(self):
        if self.own:
            self.kernel.close()

    # ---- looking ----

    def nodes(self, t=None):
        found = []

        def walk(nodes):
            for node in nodes:
                if t is None or node["t"] == t:
                    found.append(node)
                if isinstance(node.get("of"), list):
                    walk(node["of"])

        walk(self.tree["tree"])
        return found

    def node(self, t, n=0):
        return self.nodes(t)[n]

    def metric(self, label):
        for node in self.nodes("metric"):
            if node["label"] == label:
                return node["value"] if "value" in node else node["text"]
        raise AssertionError(f"no metric {label!r}")

    def control(self, label):
        return next(n for n in self.nodes() if n.get("label") == label and "value" in n)
