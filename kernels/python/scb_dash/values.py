"""A plain value as a part of a dashboard: what write() does, and the last expression of a script."""

import dataclasses
import datetime
import decimal
import numbers
import re

from . import charts, frames
from .nodes import Container, Element, without_tags

METRICS_MAX = 12
JSON_DEPTH, JSON_NODES = 4, 200
SPARK_MAX = 60
TOP = 30
_TIMES = (datetime.date, datetime.time, datetime.timedelta)


def plain(value):
    """A scalar as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, float):
        return f"{value:,.6g}"
    return str(value)


def spark(data):
    """At most 60 numbers of a series, null for what is missing."""
    if frames.is_series(data) or frames.is_array(data):
        data = data.tolist()
    elif frames.is_frame(data):
        data = data.iloc[:, 0].tolist()
    data = list(data)
    if len(data) > SPARK_MAX:
        step = len(data) / SPARK_MAX
        data = [data[int(i * step)] for i in range(SPARK_MAX - 1)] + [data[-1]]
    out = []
    for value in data:
        value = frames.scalar(value)
        good = isinstance(value, numbers.Real) and abs(value) != float("inf")
        out.append(float(f"{float(value):.4g}") if good else None)
    return out


def json_tree(value, depth=0, budget=None):
    """Depth 4 and 200 nodes of it, as JSON."""
    budget = budget if budget is not None else [JSON_NODES]
    budget[0] -= 1
    value = frames.scalar(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, str):
        if depth == 0 and value[:1] in "[{":
            import json

            try:
                return json_tree(json.loads(value), depth, budget)
            except ValueError:
                pass
        return value[:1000]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, dict):
        if depth >= JSON_DEPTH or budget[0] <= 0:
            return f"{{… {len(value)}}}"
        out = {}
        for key, item in value.items():
            if budget[0] <= 0:
                out["…"] = f"{len(value) - len(out)} more"
                break
            out[str(key)[:200]] = json_tree(item, depth + 1, budget)
        return out
    if isinstance(value, (list, tuple, set, frozenset)):
        if depth >= JSON_DEPTH or budget[0] <= 0:
            return f"[… {len(value)}]"
        out = []
        for item in value:
            if budget[0] <= 0:
                out.append(f"… {len(value) - len(out)} more")
                break
            out.append(json_tree(item, depth + 1, budget))
        return out
    return _repr(value)[:1000]


def _repr(value):
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def is_displayable(value):
    """Would show() make more of it than a text?"""
    return (
        frames.is_tabular(value) or frames.is_series(value) or frames.is_array(value)
        or frames.is_groupby(value) or frames.figure_of(value) is not None
        or frames.is_plotly(value) or frames.is_altair(value) or _is_scalar(value)
        or (isinstance(value, (dict, list, tuple)) and len(value) > 0)
    )


def _is_scalar(value):
    if isinstance(value, (bool, numbers.Number, decimal.Decimal, *_TIMES)):
        return True
    return getattr(value, "shape", None) == () and hasattr(value, "item")


def show(api, value, name=None, in_write=False):
    """Shows a value by its type; name is that of the variable, for a title."""
    if value is None or isinstance(value, (Element, Container)):
        return Element("nothing")
    if isinstance(value, str):
        return api.markdown(value)
    if isinstance(value, BaseException):
        return api.exception(value)
    if frames.is_styler(value):
        return api.table(value.data)
    if frames.is_groupby(value):
        counts = value.size()
        api.chart(counts, kind="bar")
        return api.table(counts)
    if frames.is_series(value):
        return _series(api, value, name)
    if frames.is_tabular(value):
        return _frame(api, frames.to_frame(value), name, in_write)
    if frames.is_array(value):
        return _array(api, value, name)
    if frames.is_index(value):
        return api.table(frames.to_frame(value))
    if frames.figure_of(value) is not None:
        return api.pyplot(value)
    if frames.is_plotly(value):
        return api.plotly_chart(value)
    if frames.is_altair(value):
        return api.altair_chart(value)
    if _is_scalar(value):
        return _scalar(api, value, name, in_write)
    if isinstance(value, dict):
        return _dict(api, value, in_write)
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return _list(api, value, name)
    return _other(api, value)


def _scalar(api, value, name, in_write):
    if in_write:
        return api.markdown(plain(frames.scalar(value)))
    return api.metric(name or "Result", value)


def _frame(api, frame, name, in_write):
    if in_write:
        return api.table(frame)
    if name:
        api.board.set_title(name, weak=True)
    rows, columns = frame.shape
    api.metric("Rows", rows)
    api.metric("Columns", columns)
    api.metric("Missing", int(frame.isna().to_numpy().sum()))
    if rows > 1 and columns and charts.fits(frame):
        try:
            api.chart(frame)
        except Exception:  # nothing in it can be drawn: the table says it all
            pass
    return api.table(frame)


def _series(api, series, name):
    """By its index: times make a line, categories bars, plain numbers a histogram."""
    from . import chart_data

    title = str(series.name) if series.name is not None else name
    if title:
        api.board.set_title(title, weak=True)
    index = series.index
    numeric = chart_data.kind_of(series) == "num"
    if not numeric:
        counts = series.value_counts()
        if 0 < len(counts) <= 200:
            api.chart(counts.head(TOP), kind="bar", title=f"{title or 'values'}: how often each")
        return api.table(series)
    plain_index = type(index).__name__ == "RangeIndex"
    if plain_index or (index.nlevels == 1 and chart_data.kind_of(index.to_series()) == "num"
                       and not index.name):
        return _numbers(api, series, title)
    if index.nlevels == 1 and chart_data.kind_of(index.to_series()) == "time":
        api.chart(series, kind="line")
        return api.table(series)
    shown = series
    if len(series) > TOP:
        shown = series.reindex(series.abs().sort_values(ascending=False, kind="stable").index[:TOP])
        api.board.note(f"The {TOP} largest of {len(series)} are drawn; the table has all.")
    api.chart(shown, kind="bar")
    return api.table(series)


def _numbers(api, series, title):
    from . import chart_data

    np = chart_data.numpy()
    values = chart_data.to_float(series)
    good = values[np.isfinite(values)]
    if len(values):
        api.chart(series, kind="histogram", title=title)
    for label, function in (("Min", np.min), ("Median", np.median), ("Mean", np.mean), ("Max", np.max)):
        api.metric(label, float(f"{function(good):.10g}") if len(good) else None)
    return api.metric("Missing", int(len(values) - len(values[~np.isnan(values)])))


def _array(api, array, name):
    from . import chart_data

    pd = chart_data.pandas()
    if array.ndim == 0:
        return api.metric(name or "Result", array.item())
    if array.ndim == 1:
        return _series(api, pd.Series(array), name)
    if array.ndim == 2:
        if max(array.shape) <= 60 and array.dtype.kind in "iufb":
            return api.chart(pd.DataFrame(array), kind="heatmap")
        return api.table(pd.DataFrame(array))
    return api.text(f"array of shape {' × '.join(map(str, array.shape))}, {array.dtype}")


def _dict(api, value, in_write):
    if in_write or not value:
        return api.json(value)
    if all(_is_scalar(v) or isinstance(v, str) or v is None for v in value.values()):
        if len(value) <= METRICS_MAX:
            for key, item in value.items():
                api.metric(str(key), item)
            return Element("metrics")
        from . import chart_data

        return api.table(chart_data.pandas().DataFrame(
            {"name": [str(k) for k in value], "value": list(value.values())}), hide_index=True)
    if all(frames.is_tabular(v) or frames.is_series(v) or frames.figure_of(v) is not None or
           frames.is_plotly(v) or frames.is_altair(v) for v in value.values()):
        for tab, item in zip(api.tabs(list(map(str, value))), value.values()):
            with tab:
                show(api, item)
        return Element("tabs")
    frame = frames.to_frame(value)
    if frame is not None and not any(isinstance(v, dict) for v in value.values()):
        return _frame(api, frame, None, False)
    return api.json(value)


def _list(api, value, name):
    items = list(value)
    if isinstance(value, tuple):
        for item in items:
            show(api, item)
        return Element("values")
    if items and all(isinstance(item, dict) for item in items):
        return _frame(api, frames.to_frame(items), name, False)
    if len(items) > 2 and all(isinstance(item, numbers.Real) and not isinstance(item, bool) for item in items):
        return api.chart(items, kind="line")
    return api.json(items)


def _other(api, value):
    """By the representations that it gives itself. HTML is never run."""
    from scb_kernel import show as kernel_show

    bundle = dict(kernel_show.bundle(value))
    for mime in ("image/png", "image/svg+xml", "image/jpeg"):
        if mime in bundle:
            return api.image(bundle[mime])
    for mime in bundle:
        if mime.startswith("application/vnd.vega"):
            import json

            return api.vega_lite_chart(json.loads(bundle[mime]))
    text = bundle.get("text/plain", b"").decode("utf-8", "replace")
    if "text/markdown" in bundle:
        return api.markdown(bundle["text/markdown"].decode("utf-8", "replace"))
    if "application/json" in bundle:
        return api.json(bundle["application/json"].decode("utf-8", "replace"))
    if "text/latex" in bundle:
        return api.latex(bundle["text/latex"].decode("utf-8", "replace"))
    if "text/html" in bundle and "<table" in bundle["text/html"].decode("utf-8", "replace").lower():
        return _html_table(api, bundle["text/html"].decode("utf-8", "replace"))
    return api.text(text)


def _html_table(api, html):
    rows = []
    for row in re.findall(r"(?is)<tr\b.*?</tr>", html)[:2000]:
        cells = re.findall(r"(?is)<t[hd]\b[^>]*>(.*?)</t[hd]>", row)
        rows.append([" ".join(without_tags(cell).split()) for cell in cells])
    rows = [row for row in rows if row]
    if not rows:
        return api.text(without_tags(html))
    from . import chart_data

    width = max(map(len, rows))
    rows = [row + [""] * (width - len(row)) for row in rows]
    frame = chart_data.pandas().DataFrame(rows[1:], columns=rows[0])
    return api.table(frame)
