"""Figures of Plotly, translated: their own runtime is never run. Reads to_plotly_json(), so the
library is needed only by the script that made the figure."""

import base64

from . import chart_data, charts
from .errors import Teach

DRAWN = "scatter (lines, markers, area), bar, histogram, box, violin, heatmap, pie"


def _values(value):
    """A list of what a trace holds: plain, an array, or Plotly's {dtype, bdata}."""
    if isinstance(value, dict) and "bdata" in value:
        np = chart_data.numpy()
        array = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
        if value.get("shape"):
            array = array.reshape([int(n) for n in str(value["shape"]).split(",")])
        return array.tolist()
    if value is None:
        return None
    return value.tolist() if hasattr(value, "tolist") else list(value)


def _title(part):
    title = (part or {}).get("title")
    return title.get("text") if isinstance(title, dict) else title


def show(api, figure):
    """Shows the figure's traces; of those that cannot be drawn the data, as a table."""
    data = figure.to_plotly_json() if hasattr(figure, "to_plotly_json") else figure
    if not isinstance(data, dict):
        raise Teach("plotly_chart: give a figure of Plotly")
    traces = [t.to_plotly_json() if hasattr(t, "to_plotly_json") else t for t in data.get("data") or ()]
    layout = data.get("layout") or {}
    kinds = [_kind(trace) for trace in traces]
    if not traces:
        raise Teach("plotly_chart: the figure has no traces")
    if None in kinds:
        name = traces[kinds.index(None)].get("type", "scatter")
        api.board.note(f"This figure (plotly '{name}') can't be drawn here. Drawn kinds: {DRAWN}. "
                       "Use matplotlib, or scb.chart. Its data is shown as a table.")
        return _table(api, traces)
    frame, spec, x, y, color = _one_chart(traces, kinds, layout)
    source = charts.make(frame, spec, x, y, color)
    return api.put_chart(source)


def _kind(trace):
    kind = trace.get("type", "scatter")
    if kind in ("scatter", "scattergl"):
        if trace.get("fill") not in (None, "none") or trace.get("stackgroup"):
            return "area"
        mode = trace.get("mode") or ("lines" if len(_values(trace.get("y")) or ()) > 20 else "lines+markers")
        return "line" if "lines" in mode else "scatter" if "markers" in mode else None
    return {"bar": "bar", "histogram": "histogram", "box": "box", "violin": "box", "heatmap": "heatmap",
            "pie": "pie"}.get(kind)


def _one_chart(traces, kinds, layout):
    """(frame, spec, x, y, color) of all traces as one chart; the first one's kind is the chart's."""
    kind = kinds[0]
    options = {"title": _title(layout)}
    x_axis, y_axis = layout.get("xaxis") or {}, layout.get("yaxis") or {}
    options.update(x_label=_title(x_axis), y_label=_title(y_axis))
    log = "".join(a for a, axis in (("x", x_axis), ("y", y_axis)) if axis.get("type") == "log")
    options["log"] = log or None
    if kind == "heatmap":
        return _heatmap(traces[0], options)
    if kind == "pie":
        pd = chart_data.pandas()
        frame = pd.DataFrame({"label": _values(traces[0].get("labels")), "value": _values(traces[0].get("values"))})
        return frame, charts.Spec("pie", **options), "label", "value", None
    horizontal = any(t.get("orientation") == "h" for t in traces) and kind in ("bar", "box")
    frame, many = _long(traces, horizontal, kind)
    if kind == "bar":
        options.update(horizontal=horizontal or None, stack=layout.get("barmode") not in ("group", "overlay"))
        options["sort"] = False
    if kind == "area":
        options["stack"] = any(t.get("stackgroup") for t in traces)
    if kind == "histogram":
        bins = traces[0].get("nbinsx")
        options["bins"] = int(bins) if bins else None
        return frame, charts.Spec(kind, **options), None, "x", "series" if many else None
    x = "x" if frame["x"].notna().any() else None
    return frame, charts.Spec(kind, **options), x, "y", "series" if many else None


def _long(traces, horizontal, kind):
    pd = chart_data.pandas()
    parts = []
    for i, trace in enumerate(traces):
        xs, ys = _values(trace.get("x")), _values(trace.get("y"))
        if horizontal:
            xs, ys = ys, xs
        if kind == "histogram":
            xs = xs if xs is not None else ys
            ys = [None] * len(xs)
        elif ys is None:
            ys, xs = xs, None
        if ys is None:
            raise Teach("plotly_chart: a trace has no values")
        n = len(ys)
        if xs is None:
            xs = [None] * n if kind == "box" else list(range(n))
        parts.append(pd.DataFrame({"x": list(xs)[:n], "y": ys, "series": str(trace.get("name") or f"trace {i}")}))
    frame = pd.concat(parts, ignore_index=True)
    frame["x"] = _times(pd, frame["x"])
    return frame, len(parts) > 1


def _times(pd, column):
    """Plotly hands dates over as text."""
    first = column.dropna().head(1).tolist()
    if first and isinstance(first[0], str) and len(first[0]) >= 8 and first[0][:4].isdigit() and "-" in first[0]:
        try:
            return pd.to_datetime(column)
        except (ValueError, TypeError):
            pass
    return column


def _heatmap(trace, options):
    pd = chart_data.pandas()
    frame = pd.DataFrame(_values(trace.get("z")))
    for axis, name in (("columns", "x"), ("index", "y")):
        labels = _values(trace.get(name))
        if labels is not None and len(labels) == len(getattr(frame, axis)):
            setattr(frame, axis, labels)
    return frame, charts.Spec("heatmap", **options), None, None, None


def _table(api, traces):
    pd = chart_data.pandas()
    for trace in traces[:4]:
        columns = {}
        parts = {**trace, **{f"{k}.{n}": v for k in ("node", "link") for n, v in (trace.get(k) or {}).items()}}
        for name, value in parts.items():
            if isinstance(value, (list, tuple)) or hasattr(value, "tolist") or (
                isinstance(value, dict) and "bdata" in value
            ):
                try:
                    columns[name] = pd.Series(_values(value))
                except Exception:
                    continue
        if columns:
            api.table(pd.DataFrame(columns))
    return None


