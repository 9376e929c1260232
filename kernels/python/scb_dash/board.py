"""One dashboard: its script, what its units showed, its controls. What the tree is made of."""

import base64
import copy
import hashlib

from . import controls, nodes, state, wire

IMAGES_MAX = 24
NOTES_MAX = 12


class Board:
    def __init__(self, key, service):
        self.id = key
        self.service = service
        self.api = service.api
        self.px = {"w": 760, "dpr": 1}
        self.given_title = None
        self.plain = False  # whoever asked has no page, and is told more
        self.controls = controls.Controls(self)
        self.state = state.SessionState()
        self.figures = None  # the engine's
        self.engine = None
        self.inside = ""
        self.shown = nodes.Shown()  # of the unit that runs
        self.uid = "0"
        self.clicked = None
        self.parents = {}
        self.forms = {}
        self.downloads = {}
        self.rev = 0
        self.flat = {"": (None, [])}
        self.begin_run()
        self.tree = []
        self.status = "ok"
        self.error = None
        self.ms = 0
        self.ran = []

    # ---- for the functions of scb, while a unit runs ----

    def begin(self, uid, inside):
        self.uid, self.inside = uid, inside
        self.shown = nodes.Shown()
        return self.shown

    def put(self, node, place=None):
        """Adds a node where the script stands, or at the place: its id."""
        shown = self.shown
        place = self.inside if place is None else place
        if "id" not in node:
            node = {"id": f"{self.uid}.{shown.ordinal}", **node}
            shown.ordinal += 1
        key = node["id"]
        if node["t"] in wire.HOLDERS:
            self.parents[key] = place
            form = node.pop("form", None)
            if form is not None:
                self.forms[key] = form
        shown.items.append((place, wire.clean(node)))
        return key

    def note(self, text):
        text = wire.text(str(text), 500)
        if text not in self.shown.notes and len(self.shown.notes) < NOTES_MAX:
            self.shown.notes.append(text)

    def set_title(self, text, weak=False):
        """True where it is the title; False where there is one already."""
        text = wire.text(" ".join(text.split()), 200)
        strong = any(s.title and not s.title[1] for s in self.engine.shown_by_others())
        if self.shown.title is None or (self.shown.title[1] and not weak):
            self.shown.title = text, weak
            return not strong
        return False

    def form_of(self, place):
        place = self.inside if place is None else place
        for _ in range(40):
            if place in self.forms:
                return self.forms[place]
            if place not in self.parents:
                return None
            place = self.parents[place]
        return None

    def controls_before(self, what):
        """How many controls of the same name the units before this one have."""
        return sum(s.counts.get(what, 0) for s in self.engine.shown_before())

    def keep_image(self, data, mime):
        return hashlib.sha256(data).hexdigest()[:16]

    def keep_download(self, label, data, name, mime):
        self.shown.downloads[self.shown.controls[-1]] = data, name, mime

    # ---- the tree ----

    def title(self):
        if self.given_title:
            return self.given_title
        for weak in (False, True):
            for shown in self.engine.shown_parts():
                if shown.title and shown.title[1] == weak:
                    return shown.title[0]
        return "Dashboard"

    def notes(self, more=()):
        out = []
        for note in [*(n for s in self.engine.shown_parts() for n in s.notes), *more]:
            if note not in out:
                out.append(note)
        return out[:NOTES_MAX]

    def build(self):
        """The tree as it is now: its nodes, and the notes."""
        parts = self.engine.shown_parts()
        tree, more = nodes.assemble(parts)
        tree, cut = self._within(tree)
        return tree, self.notes([*more, *cut])

    def _within(self, tree):
        """Where the tree is too large: charts are drawn coarser, then left to be asked for."""
        if len(wire.encode(tree)) <= wire.TREE_MAX:
            return tree, []
        tree = copy.deepcopy(tree)  # units keep their nodes: the next tree may have room for them
        every = wire.by_id(tree)
        sources = {k: s for shown in self.engine.shown_parts() for k, s in shown.charts.items()}
        for budget in (0.25, 0.08):
            for key in sorted((k for k in sources if k in every), key=lambda k: -len(wire.dumps(every[k]))):
                node = wire.clean(sources[key].node(self.px, None, budget))
                every[key].clear()
                every[key].update({"id": key, **node})
                if len(wire.encode(tree)) <= wire.TREE_MAX:
                    return tree, []
        for key in sorted(every, key=lambda k: -len(wire.dumps(every[k])) if every[k]["t"] not in wire.HOLDERS else 0):
            node = every[key]
            if node["t"] in wire.HOLDERS or node["t"] in nodes.CONTROL_TYPES:
                continue
            title = node.get("title") or node["t"]
            node.clear()
            node.update(id=key, t="note", level="warning",
                        text=f"{title}: too large to be sent; show less of it, or in a dashboard of its own.")
            if len(wire.encode(tree)) <= wire.TREE_MAX:
                break
        return tree, ["The dashboard is larger than 230 KB: its largest parts were left out."]

    def whole(self, seq=None):
        tree = {"v": wire.VERSION, "id": self.id, "rev": self.rev, "title": self.title(), "status": self.status,
                "ms": self.ms, "notes": self.last_notes, "tree": self.tree}
        if seq is not None:
            tree["seq"] = seq
        return tree

    last_notes = ()

    def begin_run(self):
        """From here on patches begin with the tree as it is now."""
        self._before, self._named = (self.rev, self.flat), wire.Named()

    def advance(self, status, seq=None):
        """The next revision: the patch to it from the tree that the run began with, which fits those
        between as well."""
        tree, notes = self.build()
        since, before = self._before
        patch, flat = wire.difference(before, tree, self._named)
        self._named.add(patch)
        self.rev += 1
        self.flat, self.tree, self.status, self.last_notes = flat, tree, status, notes
        head = {"v": wire.VERSION, "id": self.id, "from": since, "rev": self.rev, "status": status, "ms": self.ms,
                "ran": self.ran[:], "title": self.title(), "notes": notes}
        if seq is not None:
            head["seq"] = seq
        return {**head, **patch}

    def find(self, kind, key):
        """The source of a table, chart or picture by its node's id; None of unknown ones."""
        for shown in self.engine.shown_parts():
            found = getattr(shown, kind).get(key)
            if found is not None:
                return found
        return None


def data_uri(mime, data):
    return f"data:{mime};base64,{base64.b64encode(data).decode()}"
