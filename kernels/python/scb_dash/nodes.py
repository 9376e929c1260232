"""Where what a script shows is kept: each unit's own nodes, put together to the tree of §3.3."""

import re

from . import wire

METRIC_MIN = 2  # so many metrics in a row stand side by side


class Container:
    """A place in the tree. Holds only its id, so that one that a unit makes again is the same."""

    def __init__(self, board, key):
        self._scb_board = board
        self._scb_id = key
        self._scb_entered = []

    def __enter__(self):
        self._scb_entered.append(self._scb_board.inside)
        self._scb_board.inside = self._scb_id
        return self

    def __exit__(self, *error):
        self._scb_board.inside = self._scb_entered.pop()
        return False

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self._scb_board.api.method(self, name)

    def __eq__(self, other):
        return type(other) is type(self) and other._scb_id == self._scb_id

    def __hash__(self):
        return hash(self._scb_id)

    def __repr__(self):
        return f"<shown: {self._scb_id}>"


class Element:
    """What an output function returns: a trailing call of one is not shown twice."""

    def __init__(self, text):
        self._text = text

    def __repr__(self):
        return f"<shown: {self._text}>"

    def __eq__(self, other):
        return type(other) is Element and other._text == self._text

    def __hash__(self):
        return hash(self._text)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class Shown:
    """What one unit showed: (container's id, node) in order, and what it asked of controls."""

    def __init__(self):
        self.items = []
        self.controls = []  # ids, in order of their calls
        self.counts = {}  # (kind, label, key): how many in this unit
        self.notes = []
        self.images = {}
        self.plain = {}  # those as PNG, where board.plain
        self.tables = {}
        self.charts = {}
        self.downloads = {}
        self.options = {}  # of controls that have too many to be sent
        self.title = None  # (text, weak)
        self.clicked = False  # a button was True
        self.printed = ""
        self.ordinal = 0


CONTROL_TYPES = frozenset(
    """select radio segmented pills multiselect slider range select_slider number date date_range
    time checkbox toggle text text_area button download""".split()
)


def _grouped(nodes):
    """Controls that follow each other share a bar, metrics a row."""
    out, at = [], 0
    while at < len(nodes):
        node = nodes[at]
        end = at + 1
        if node["t"] in CONTROL_TYPES:
            while end < len(nodes) and nodes[end]["t"] in CONTROL_TYPES:
                end += 1
            out.append({"id": "c:" + node["id"], "t": "controls", "of": nodes[at:end]})
        elif node["t"] == "metric":
            while end < len(nodes) and nodes[end]["t"] == "metric":
                end += 1
            if end - at >= METRIC_MIN:
                out.append({"id": "g:" + node["id"], "t": "grid", "min": 150, "of": nodes[at:end]})
            else:
                out.append(node)
        else:
            out.append(node)
        at = end
    return out


def assemble(shown):
    """The tree of what the units showed, in their order. Returns (nodes, notes)."""
    children = {"": [], "sidebar": []}
    notes, single = [], {}
    total = controls = left_out = 0
    for part in shown:
        for key, node in part.items:
            if node["t"] in CONTROL_TYPES:
                controls += 1
                if controls > wire.CONTROLS_MAX:
                    left_out += 1
                    continue
            total += 1
            if total > wire.NODES_MAX:
                left_out += 1
                continue
            if node.get("single"):
                single[node["id"]] = True
            children.setdefault(key, []).append(node)
    if left_out:
        notes.append(
            f"{left_out} more elements are not shown: a dashboard has {wire.NODES_MAX}, of them "
            f"{wire.CONTROLS_MAX} controls."
        )

    def build(key):
        out = []
        for node in children.get(key, ()):
            if node["t"] in wire.HOLDERS:
                node = {k: v for k, v in node.items() if k != "single"}
                node["of"] = build(node["id"])
                if node["id"] in single:
                    node["of"] = node["of"][-1:]
                if not node["of"] and node["t"] == "box" and key not in rows:
                    continue
            out.append(node)
        return out if key in rows else _grouped(out)

    top = children[""]
    rows = {  # what stands beside each other in them stays as it is
        node["id"] for nodes in children.values() for node in nodes if node["t"] in ("grid", "tabs")
    }
    # A control bar at the top: the sidebar's controls, then those that come before anything else.
    leading = 0
    while leading < len(top) and top[leading]["t"] in CONTROL_TYPES:
        leading += 1
    side = [n for n in children["sidebar"] if n["t"] in CONTROL_TYPES]
    rest = [n for n in children["sidebar"] if n["t"] not in CONTROL_TYPES]
    bar = side + top[:leading]
    children[""] = rest + top[leading:]
    tree = build("")
    if bar:
        tree.insert(0, {"id": "controls", "t": "controls", "of": bar})
    return tree, notes


_MARKUP = re.compile(r"<[^<>]*>")


def without_tags(text):
    """For unsafe_allow_html: the text that the tags enclose."""
    text = re.sub(r"(?is)<(script|style)\b.*?</\1>", "", text)
    return _MARKUP.sub("", text)
