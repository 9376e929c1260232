"""chart(): from data to the App's chart nodes. What is drawn is aggregated or decimated here; the
source stays, so that a zoom gets the exact data of its window."""

from . import chart_data, chart_kinds
from .errors import Teach

KINDS = ("auto", "line", "area", "bar", "scatter", "histogram", "box", "heatmap", "pie")
_OTHER_NAMES = {"hist": "histogram", "column": "bar", "barh": "bar", "boxplot": "box", "point": "scatter",
                "points": "scatter", "lines": "line", "donut": "pie", "violin": "box"}


class Spec:
    """What a call of chart() asked for, checked."""

    def __init__(self, kind="auto", agg=None, stack=None, horizontal=None, bins=None, sort=None, log=None,
                 title=None, x_label=None, y_label=None, format=None, height=None):
        self.given_kind = kind
        if kind == "barh":
            horizontal = True
        self.kind = _OTHER_NAMES.get(kind, kind)
        if self.kind not in KINDS:
            raise Teach(f"chart: there is no kind {kind!r}. Kinds: {', '.join(KINDS)}.")
        self.agg, self.stack, self.horizontal, self.bins, self.sort = agg, stack, horizontal, bins, sort
        self.log_x = log in ("x", "xy")
        self.log_y = log is True or log in ("y", "xy")
        self.title, self.x_label, self.y_label = title, x_label, y_label
        self.format, self.height = format, height


class Source:
    """A chart with its data: draws itself for a width, and for a window of x."""

    def __init__(self, spec, data, draw):
        self.spec, self.data, self._draw = spec, data, draw
        self.notes = []

    def node(self, px, window=None, budget=1.0):
        node = self._draw(self.spec, self.data, px, window, budget)
        node["t"] = "chart"
        if self.spec.title:
            node["title"] = str(self.spec.title)
        if self.spec.height:
            node["h"] = int(self.spec.height) if isinstance(self.spec.height, (int, float)) else 286
        for axis, log, label in (("x", self.spec.log_x, self.spec.x_label),
                                 ("y", self.spec.log_y, self.spec.y_label)):
            if axis in node:
                if log:
                    node[axis]["log"] = True
                if label:
                    node[axis]["label"] = str(label)
        return node


def make(data, spec, x=None, y=None, color=None, size=None):
    """A Source; Teach where the data do not fit the kind."""
    table = chart_data.Data(data, x, y, color, size, spec)
    if spec.kind == "auto":
        spec.kind = chart_kinds.automatic(table)
    table.settle(spec)
    source = Source(spec, table, chart_kinds.DRAW[spec.kind])
    source.notes = table.notes
    return source


def fits(value):
    """May a frame or series be drawn without having been asked for: at most 2,000 marks?"""
    try:
        spec = Spec()
        table = chart_data.Data(value, None, None, None, None, spec)
        kind = chart_kinds.automatic(table)
    except Exception:
        return False
    if kind == "line":
        return len(table.ys) * table.rows <= 2000
    return kind in ("bar", "heatmap", "histogram") or table.rows <= 2000
