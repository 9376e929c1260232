"""JSON that is always valid, and trees as the App is sent them: hashes, differences, caps."""

import json
import math

VERSION = 1
# A DISPLAY frame holds 240 KiB with its names; a tree stays below that.
TREE_MAX = 230 * 1000
NODES_MAX = 200
CONTROLS_MAX = 40
TEXT_MAX = 20 * 1000  # characters of one text node
_MIME = "application/vnd.scb.dashboard."
MIME_TREE, MIME_PATCH, MIME_PAGE, MIME_OUTLINE, MIME_TEXT = (
    _MIME + "tree+json", _MIME + "patch+json", _MIME + "page+json", _MIME + "outline+json",
    _MIME + "text",
)


def clean(value):
    """A copy of what JSON can say: no NaN, no keys but texts, nothing beyond 2^53."""
    kind = type(value)
    if kind is str:
        return text(value)
    if kind is bool or value is None:
        return value
    if kind is int:
        return value if -(1 << 53) <= value <= 1 << 53 else str(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {text(str(k)): clean(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return _clean_list(value)
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        return clean(item())
    return text(str(value))


def _clean_list(value):
    """Columns and series, which are long, are of one type."""
    kinds = set(map(type, value))
    if len(kinds) == 1:
        kind = kinds.pop()
        if kind is str:
            return [text(v) for v in value]
        if kind is float and all(map(math.isfinite, value)):
            return list(value)
        if kind is int and -(1 << 53) <= min(value) and max(value) <= 1 << 53:
            return list(value)
    return [clean(v) for v in value]


_CONTROL = {i: None for i in range(32) if i not in (9, 10)}
_CONTROL.update({i: None for i in range(0x7F, 0xA0)})
_CONTROL.update({i: None for i in (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))})


def text(value, limit=TEXT_MAX):
    """As UTF-8 can carry it, without characters that steer terminals or turn lines around."""
    if not value.isprintable():  # no surrogate is
        value = value.encode("utf-8", "replace").decode("utf-8").translate(_CONTROL)
    if len(value) > limit:
        value = f"{value[:limit]}… ({len(value)} characters)"
    return value


def dumps(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode(value):
    return dumps(value).encode("utf-8", "replace")


# ---- differences ----


def flatten(nodes, out=None, parent=""):
    """{id: (the node's own JSON without its children, its children's ids)} of a tree."""
    if out is None:
        out = {}
    out[parent] = out.get(parent, (None, None))[0], [node["id"] for node in nodes]
    for node in nodes:
        children = node.get("of") if node["t"] in HOLDERS else None
        if children is None:
            out[node["id"]] = dumps(node), None
        else:
            own = {k: v for k, v in node.items() if k != "of"}
            out[node["id"]] = dumps(own), None
            flatten(children, out, node["id"])
            out[node["id"]] = dumps(own), out[node["id"]][1]
    return out


HOLDERS = frozenset(("controls", "grid", "tabs", "expander", "box"))


def by_id(nodes, out=None):
    out = {} if out is None else out
    for node in nodes:
        out[node["id"]] = node
        if node["t"] in HOLDERS:
            by_id(node["of"], out)
    return out


class Named:
    """What the patches since a tree have named: those that follow name it again, so that each of them
    fits that tree and all between."""

    def __init__(self):
        self.set, self.order, self.gone = set(), set(), set()

    def add(self, patch):
        for key, node in patch["set"].items():
            whole = node["t"] in HOLDERS and "of" in node  # and so is what is in it
            inside = by_id([node]) if whole else {key: node}
            self.set.update(inside)
            self.order.update(k for k, n in inside.items() if whole and n["t"] in HOLDERS)
        self.order.update(patch.get("order", ()))
        self.gone.update(patch.get("del", ()))


def difference(old, new, named=None):
    """What makes the tree of `old` (flatten()) that of `new`: set, order, del.

    A holder that is new comes whole, with its children; one that changed comes without `of`, which
    the App keeps."""
    before, after = old, flatten(new)
    named = named or Named()
    nodes = by_id(new)
    changed, order = {}, {}
    inside = set()  # of holders that come whole
    for key, (own, children) in after.items():
        if key in inside:
            if children:
                inside.update(children)
            continue
        if key and (key not in before or key in named.gone):
            changed[key] = nodes[key]
            if children:
                inside.update(children)
            continue
        if key and (before[key][0] != own or key in named.set):
            node = nodes[key]
            changed[key] = {k: v for k, v in node.items() if k != "of"} if children is not None else node
        if children is not None and (before[key][1] != children or key in named.order):
            order[key] = children
    gone = [key for key in [*before, *((named.set | named.gone) - before.keys())] if key and key not in after]
    patch = {"set": changed}
    if order:
        patch["order"] = order
    if gone:
        patch["del"] = gone
    return patch, after


def apply(tree, patch):
    """What the App does with a patch; for tests."""
    nodes = by_id(tree)
    parents = {"": tree}
    parents.update({k: n["of"] for k, n in nodes.items() if n["t"] in HOLDERS})
    for key, node in patch.get("set", {}).items():
        old = nodes.get(key)
        if old is not None and node["t"] in HOLDERS and "of" not in node:
            of = old["of"]
            old.clear()
            old.update(node)
            old["of"] = of
        elif old is not None:
            old.clear()
            old.update(node)
        else:
            nodes[key] = node
            by_id([node], nodes)
    for parent, children in patch.get("order", {}).items():
        of = tree if not parent else nodes[parent]["of"]
        of[:] = [nodes[child] for child in children]
    return tree
