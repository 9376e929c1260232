"""How each kind of chart is drawn: aggregation and decimation here, marks in the App."""

from . import decimate, formats, sums
from .chart_data import CATEGORIES_MAX, SERIES_MAX, kind_of, numpy, pandas, to_float, to_ms
from .errors import Teach

SCATTER_MAX = 8000
PIE_MAX = 8
OUTLIERS_MAX = 50
_AGGS = {"avg": "mean", "average": "mean", "total": "sum", "size": "count"}


def automatic(table):
    """The kind for data of which nothing else is said."""
    frame = table.frame
    if frame is not None and not table.x_given and not table.y_given and _is_matrix(frame):
        return "heatmap"
    if table.x is not None and table.ys:
        kind = kind_of(table.x)
        if kind == "time":
            return "line"
        if kind == "num" and table.x.nunique() > 30:
            return "scatter" if not table.x.is_monotonic_increasing else "line"
        return "bar"
    if table.x is not None:
        return "histogram" if kind_of(table.x) == "num" else "bar"
    if frame is None:
        return "line" if len(table.ys) else "bar"
    numeric, trial = table._numeric(), table
    if table.index_says_something():
        index = trial._index_as_x()
        kind = kind_of(index)
        if kind == "time":
            return "line"
        if kind == "cat" and numeric:
            return "bar"
    kinds = [kind_of(frame.iloc[:, i]) for i in range(frame.shape[1])]
    if "time" in kinds and "num" in kinds:
        return "line"
    cats = [i for i, k in enumerate(kinds) if k == "cat" and frame.iloc[:, i].nunique() <= 30]
    if cats:
        return "bar"
    if kinds.count("num") >= 2 and not table.ys:
        return "scatter"
    if kinds.count("num") == 1:
        return "histogram" if len(frame) > 2 else "bar"
    raise Teach("chart: nothing here can be drawn; name x and y, or a kind")


def _is_matrix(frame):
    rows, columns = frame.shape
    if not (2 <= rows <= 60 and 2 <= columns <= 60):
        return False
    if any(kind_of(frame.iloc[:, i]) != "num" for i in range(columns)):
        return False
    square = rows == columns and list(frame.index) == list(frame.columns)
    return square or (frame.columns.name is not None and type(frame.index).__name__ != "RangeIndex"
                      and rows >= 3 and columns >= 5)


# ---- axes ----


def _label(series):
    name = getattr(series, "name", None)
    return None if name is None or name == 0 else str(name)


def _y_axis(spec, names):
    axis = {}
    fmt = formats.parse(spec.format)
    if fmt:
        axis["fmt"] = fmt
    if len(names) == 1 and names[0] not in (None, "value"):
        axis["label"] = str(names[0])
    return axis


def _category(value):
    if type(value) is str:
        return value if len(value) <= 200 else value[:199] + "…"
    np_item = getattr(value, "item", None)
    if np_item is not None and getattr(value, "shape", None) == ():
        value = np_item()
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        value = int(value)
    text = str(value)
    if hasattr(value, "isoformat") and text.endswith(" 00:00:00"):
        text = text[:-9]
    return text if len(text) <= 200 else text[:199] + "…"


def _time_axis(np, ms, zone):
    axis = {"t": "time", "enc": decimate.encode_times(np, ms)}
    if axis["enc"] is None:
        del axis["enc"]
        axis["v"] = []
    axis["tz"] = zone
    return axis


# ---- groups ----


def _group_names(table, limit=SERIES_MAX):
    """(codes, names) of colour; the largest groups, the rest as Other."""
    pd, np = pandas(), numpy()
    if table.color is None:
        return None, None
    codes, uniques = pd.factorize(table.color, sort=True)
    names = [_category(u) for u in uniques]
    if len(names) > limit:
        counts = np.bincount(codes[codes >= 0], minlength=len(names))
        keep = np.sort(np.argsort(-counts, kind="stable")[: limit - 1])
        place = np.full(len(names), limit - 1)
        place[keep] = np.arange(limit - 1)
        codes = np.where(codes >= 0, place[codes], -1)
        table.note_once(f"{len(names)} values of {table.color.name}: the {limit - 1} most frequent, "
                        "the rest as Other.")
        names = [names[i] for i in keep] + ["Other"]
    return codes, names


def _long(table):
    """Series to draw: [(name, x Series or None, y Series)], split by colour."""
    codes, names = _group_names(table)
    out = []
    for name, y in table.ys:
        x = table.x
        if codes is None:
            out.append((name, x, y))
            continue
        for i, group in enumerate(names):
            mask = codes == i
            label = group if len(table.ys) == 1 else f"{name} · {group}"
            out.append((label, None if x is None else x[mask], y[mask]))
    return out


# ---- kinds ----


def _positions(x, n):
    """(float positions in order of the axis, kind, zone) of an x."""
    np = numpy()
    if x is None:
        return np.arange(n, dtype=float), np.ones(n, bool), "num", None
    kind = kind_of(x)
    if kind == "time":
        ms, there, zone = to_ms(x)
        return ms.astype(float), there, "time", zone
    if kind == "num":
        values = to_float(x)
        return values, np.isfinite(values), "num", None
    return None, None, "cat", None


def line(spec, table, px, window, budget):
    np = numpy()
    series = _long(table)
    if table.x is not None and kind_of(table.x) == "cat":
        return _bars(spec, table, px, "line" if spec.kind == "line" else "area")
    prepared, kind, zone = [], "num", None
    for name, x, y in series:
        at, there, kind, zone = _positions(x, len(y))
        values = to_float(y)
        at, values = at[there], values[there]
        if len(at) > 1 and not (np.diff(at) >= 0).all():
            order = np.argsort(at, kind="stable")
            at, values = at[order], values[order]
        at, values = _summed(np, table, spec, at, values)
        if window is not None:
            a, b = np.searchsorted(at, [window[0], window[1]])
            a, b = max(0, a - 1), min(len(at), b + 1)
            at, values = at[a:b], values[a:b]
        prepared.append((str(name), at, values))
    points = sum(len(at) for _, at, _ in prepared)
    buckets = max(40, int(decimate.buckets_for(px) * budget))
    if len(prepared) > 1:
        buckets = max(40, min(buckets, 6000 // len(prepared)))
    return _line_node(spec, table, prepared, kind, zone, points, buckets)


def _summed(np, table, spec, at, values):
    """Repeated x are one point: summed, unless another agg was asked for."""
    if len(at) < 2 or (np.diff(at) > 0).all() or (spec.agg is None and spec.kind == "line" and
                                                 table.x is None):
        return at, values
    agg = _AGGS.get(spec.agg, spec.agg) or "sum"
    if spec.agg is None:
        table.note_once("Repeated values of x are summed (agg=\"sum\").")
    grouped = pandas().Series(values).groupby(at)
    out = grouped.sum(min_count=1) if agg == "sum" else grouped.agg(agg)
    return out.index.to_numpy(dtype=float), out.to_numpy(dtype=float)


def _line_node(spec, table, prepared, kind, zone, points, buckets):
    np = numpy()
    kept = []
    for name, at, values in prepared:
        keep = decimate.m4(np, at, values, buckets)
        kept.append((name, at[keep], values[keep]))
    shared = all(len(at) == len(kept[0][1]) and (at == kept[0][1]).all() for _, at, _ in kept)
    stacked = spec.kind == "area" and spec.stack is not False and len(kept) > 1
    if not shared and (stacked or points <= 4000):
        kept = _on_common_x(np, prepared if points <= 20000 else kept, stacked)
        shared = True
    node = {"kind": spec.kind, "y": _y_axis(spec, [n for n, _, _ in prepared])}
    label = _label(table.x)
    if shared:
        at = kept[0][1] if kept else np.zeros(0)
        node["x"] = _axis(np, at, kind, zone)
        node["s"] = [{"n": n, "v": decimate.rounded(np, v)} for n, _, v in kept]
    else:
        node["x"] = {"t": kind, "tz": zone} if kind == "time" else {"t": kind}
        node["s"] = [
            {"n": n, "x": decimate.encode_times(np, at) if kind == "time" else decimate.rounded(np, at),
             "v": decimate.rounded(np, v)}
            for n, at, v in kept
        ]
    if label:
        node["x"]["label"] = label
    sent = sum(len(at) for _, at, _ in kept)
    if points > sent:
        node["of"] = points
    if stacked or (spec.stack and spec.kind == "area"):
        node["stack"] = True
    _say_missing(np, node, prepared)
    return node


def _axis(np, at, kind, zone):
    if kind == "time":
        return _time_axis(np, at.astype(np.int64), zone)
    return {"t": "num", "v": decimate.rounded(np, at)}


def _on_common_x(np, series, fill):
    """All series on the union of their x. Where one has no value it has a gap, or 0 in a stack."""
    every = np.unique(np.concatenate([at for _, at, _ in series])) if series else np.zeros(0)
    out = []
    for name, at, values in series:
        whole = np.full(len(every), 0.0 if fill else np.nan)
        whole[np.searchsorted(every, at)] = values
        out.append((name, every, whole))
    return out


def _say_missing(np, node, prepared):
    missing = sum(int(np.isnan(v).sum()) for _, _, v in prepared)
    if missing:
        node["missing"] = missing
    if prepared and missing and missing == sum(len(v) for _, _, v in prepared):
        node["note"] = f"All {missing:,} values are missing."


def bar(spec, table, px, window, budget):
    x_kind = kind_of(table.x) if table.x is not None else "cat"
    if x_kind in ("time", "num") and table.rows > CATEGORIES_MAX and table.x.nunique() > CATEGORIES_MAX:
        return _wide_bars(spec, table, x_kind)
    return _bars(spec, table, px, "bar")


def _aggregated(spec, table):
    """The Sums of a column for each series."""
    agg = _AGGS.get(spec.agg, spec.agg)
    codes, names = _group_names(table)
    if codes is None and table.ys and spec.agg in (None, "sum"):
        distinct = sums.of_distinct(table)
        if distinct is not None:
            return distinct.sorted(spec.sort)
        if spec.agg is None:
            table.note_once("Rows with the same x are summed (agg=\"sum\").")
    groups = [("", None)] if codes is None else [(name, codes == i) for i, name in enumerate(names)]
    return sums.of_groups(table, agg, groups).sorted(spec.sort)


def _bars(spec, table, px, kind):
    np = numpy()
    shown = _aggregated(spec, table)
    note = None
    limit = CATEGORIES_MAX if kind == "bar" else 400
    if len(shown) > limit:
        largest = np.argsort(-shown.sizes(), kind="stable")[: limit // 2]
        note = f"The largest {limit // 2} of {len(shown)} are shown."
        shown = shown.take(np.sort(largest) if spec.sort is None else np.arange(limit // 2))
    x_kind = kind_of(table.x) if table.x is not None else "cat"
    if x_kind == "time" and kind == "bar" and len(shown) > 1:
        ms, _, zone = to_ms(pandas().Series(shown.index))
        axis = _time_axis(np, ms, zone)
    else:
        axis = {"t": "cat", "v": [_category(i) for i in shown.index.tolist()]}
    node = {"kind": kind, "x": axis, "y": _y_axis(spec, shown.names),
            "s": [{"n": str(n), "v": _exact(np, v)} for n, v in zip(shown.names, shown.values)]}
    if _label(table.x):
        axis["label"] = _label(table.x)
    if spec.stack or (spec.stack is None and table.color is not None and kind != "line"):
        node["stack"] = True
    if spec.horizontal:
        node["horizontal"] = True
    if note:
        node["note"] = note
    return node


def _exact(np, values):
    """Sums as they are, to twelve digits."""
    values = np.asarray(values, dtype=float)
    if (np.abs(values) < 1e12).all() and (values == np.floor(values)).all():
        return values.astype(np.int64).tolist()
    out = []
    for value in values.tolist():
        good = value == value and abs(value) != float("inf")
        out.append(decimate._short(float(f"{value:.12g}")) if good else None)
    return out


def _wide_bars(spec, table, x_kind):
    """Bars over many times or numbers: as bins."""
    np = numpy()
    at, there, _, zone = _positions(table.x, table.rows)
    counts = {}
    edges = np.histogram_bin_edges(at[there], bins=40)
    for name, _, y in _long(table):
        weights = None if spec.agg == "count" else np.nan_to_num(to_float(y))[there]
        counts[str(name)] = np.histogram(at[there], bins=edges, weights=weights)[0]
    if not counts:
        counts["count"] = np.histogram(at[there], bins=edges)[0]
    axis = {"t": x_kind, "edges": [decimate._short(float(e)) for e in edges], "tz": zone}
    if _label(table.x):
        axis["label"] = _label(table.x)
    return {"kind": "histogram", "x": axis, "y": _y_axis(spec, list(counts)), "note":
            f"{table.x.nunique():,} values of x, in {len(edges) - 1} bins.",
            "s": [{"n": n, "v": _exact(np, v)} for n, v in counts.items()]}


def histogram(spec, table, px, window, budget):
    np = numpy()
    series = [(name, to_float(y)) for name, _, y in _long(table)]
    zone, x_kind = None, "num"
    if table.ys and kind_of(table.ys[0][1]) == "time":
        x_kind = "time"
        series = []
        for name, _, y in _long(table):
            ms, there, zone = to_ms(y)
            series.append((name, np.where(there, ms, np.nan)))
    every = np.concatenate([v for _, v in series]) if series else np.zeros(0)
    good = every[np.isfinite(every)]
    node = {"kind": "histogram", "y": {"label": "count"}}
    if not len(good):
        node.update(x={"t": "num", "edges": [0, 1]}, s=[{"n": str(n), "v": [0]} for n, _ in series])
        node["note"] = f"All {len(every):,} values are missing." if len(every) else "No rows."
        return node
    if spec.log_x:
        good = good[good > 0]
    edges = _edges(np, good, spec)
    node["x"] = {"t": x_kind, "edges": [decimate._short(float(f"{e:.12g}")) for e in edges], "tz": zone}
    label = _label(table.ys[0][1]) if len(table.ys) == 1 else None
    if label:
        node["x"]["label"] = label
    node["s"] = [{"n": str(n), "v": _counts(np, v[np.isfinite(v)], edges, spec)} for n, v in series]
    if len(series) > 1:
        node["stack"] = True
    missing = int(len(every) - len(every[np.isfinite(every)]))
    if missing:
        node["missing"] = missing
    return node


def _counts(np, values, edges, spec):
    """Counts between the edges. numpy sorts the values unless it is told that the edges are even."""
    if spec.log_x or (spec.bins is not None and not isinstance(spec.bins, (int, np.integer))):
        return np.histogram(values, bins=edges)[0].tolist()
    ends = float(edges[0]), float(edges[-1])
    if not np.isfinite(ends[1] - ends[0]):
        return np.histogram(values, bins=edges)[0].tolist()
    return np.histogram(values, bins=len(edges) - 1, range=ends)[0].tolist()


def _edges(np, good, spec):
    bins = spec.bins
    if bins is not None and not isinstance(bins, (int, np.integer)):
        return np.asarray(bins, dtype=float)
    low, high = float(good.min()), float(good.max())
    if spec.log_x:
        return np.logspace(np.log10(low), np.log10(high or 1), (bins or 30) + 1)
    if bins is None:
        if (good == np.floor(good)).all() and high - low < 40:
            return np.arange(low, high + 2) - 0.5
        sample = good if len(good) <= 100_000 else good[:: len(good) // 100_000]
        bins = min(60, max(10, len(np.histogram_bin_edges(sample, bins="auto")) - 1))
    if not np.isfinite(high - low):
        return np.linspace(low / 2, high / 2, int(bins) + 1) * 2
    if low == high:
        pad = abs(low) * 0.05 or 0.5
        return np.linspace(low - pad, high + pad, 2)
    return np.linspace(low, high, max(1, min(int(bins), 500)) + 1)


def scatter(spec, table, px, window, budget):
    np = numpy()
    if table.x is not None and kind_of(table.x) == "cat":
        return _bars(spec, table, px, "bar")
    at, there, kind, zone = _positions(table.x, table.rows)
    codes, names = _group_names(table)
    name, y = table.ys[0]
    values = to_float(y)
    good = there & np.isfinite(values)
    if codes is not None:
        good &= codes >= 0
    if window is not None:
        good &= (at >= window[0]) & (at <= window[1])
    at, values, n = at[good], values[good], int(good.sum())
    codes = None if codes is None else codes[good]
    sizes = None if table.size is None else to_float(table.size)[good]
    width, height = min(px.get("w") or 640, 1600), 286
    node = {"kind": "scatter", "x": {"t": kind, "tz": zone} if kind == "time" else {"t": kind},
            "y": _y_axis(spec, [name]), "s": []}
    if _label(table.x):
        node["x"]["label"] = _label(table.x)
    missing = len(good) - n
    if missing and window is None:
        node["missing"] = missing
    if n == 0:
        return node
    keep = np.arange(n)
    limit = int(SCATTER_MAX * budget)
    if n > limit // 2:
        keep = decimate.cells(np, at, values, width, height, codes)
    if len(keep) > limit:
        node["density"] = decimate.density(np, at, values, width, height)
        node["of"] = n
        node["bounds"] = {"x": node["density"]["x"], "y": node["density"]["y"]}
        return node
    if len(keep) < n:
        node["of"] = n
    _scatter_series(np, node, at[keep], values[keep], None if codes is None else codes[keep], names,
                    None if sizes is None else sizes[keep], str(name))
    return node


def _scatter_series(np, node, at, values, codes, names, sizes, name):
    xs, ys = np.asarray(decimate.rounded(np, at), dtype=object), np.asarray(
        decimate.rounded(np, values), dtype=object)
    radius = None
    if sizes is not None:
        top = np.nanmax(sizes) if len(sizes) and np.isfinite(sizes).any() else 1
        radius = np.round(2 + 10 * np.sqrt(np.clip(np.nan_to_num(sizes) / (top or 1), 0, 1)), 1)
    groups = [(name, slice(None))] if codes is None else [
        (group, codes == i) for i, group in enumerate(names)]
    for group, mask in groups:
        series = {"n": group, "x": xs[mask].tolist(), "v": ys[mask].tolist()}
        if radius is not None:
            series["r"] = radius[mask].tolist()
        if series["x"]:
            node["s"].append(series)


def box(spec, table, px, window, budget):
    np = numpy()
    pd = pandas()
    groups, series = [], []
    by = table.x if table.x is not None else None
    if by is not None:
        codes, uniques = pd.factorize(by.reset_index(drop=True), sort=kind_of(by) != "cat")
        names = [_category(u) for u in uniques][:CATEGORIES_MAX]
    color_codes, color_names = _group_names(table)
    for name, y in table.ys:
        values = to_float(y)
        if by is None and color_codes is None:
            groups.append(str(name))
            series.append(_box(np, values))
            continue
        axis = names if by is not None else [str(name)]
        for i, group in enumerate(color_names or [str(name)]):
            boxes = []
            for j in range(len(axis)):
                mask = codes == j if by is not None else np.ones(len(values), bool)
                boxes.append(_box(np, values[mask & (color_codes == i)] if color_names else values[mask]))
            series.append({"n": group, "box": boxes})
        groups = axis
    if series and "box" not in (series[0] or {}):
        series = [{"n": _label(table.ys[0][1]) or "value", "box": series}]
    axis = {"t": "cat", "v": groups}
    if by is not None and _label(by):
        axis["label"] = _label(by)
    return {"kind": "box", "x": axis, "y": _y_axis(spec, [n for n, _ in table.ys]), "s": series}


def _box(np, values):
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    q1, median, q3 = np.percentile(values, [25, 50, 75])
    reach = 1.5 * (q3 - q1)
    inside = values[(values >= q1 - reach) & (values <= q3 + reach)]
    low = float(inside.min()) if len(inside) else float(q1)
    high = float(inside.max()) if len(inside) else float(q3)
    out = np.sort(values[(values < low) | (values > high)])
    box_ = {k: decimate._short(float(f"{v:.10g}")) for k, v in
            (("lo", low), ("q1", q1), ("med", median), ("q3", q3), ("hi", high))}
    box_["n"] = len(values)
    if len(out) > OUTLIERS_MAX:
        box_["more"] = len(out) - 20
        out = np.concatenate([out[:10], out[-10:]])
    if len(out):
        box_["out"] = [decimate._short(float(f"{v:.8g}")) for v in out.tolist()]
    return box_


def heatmap(spec, table, px, window, budget):
    np = numpy()
    frame = table.frame
    if table.x_given and table.y_given:
        frame = _pivot(spec, table)
    elif frame is None:
        raise Teach("chart(kind=\"heatmap\"): give a table of numbers, or x=, y= and color= as columns")
    else:
        keep = [i for i in range(frame.shape[1]) if kind_of(frame.iloc[:, i]) == "num"]
        frame = frame.iloc[:, keep]
    if not frame.shape[1]:
        raise Teach("chart(kind=\"heatmap\"): there is no column of numbers")
    note = None
    if frame.shape[0] > 200 or frame.shape[1] > 200:
        note = f"The first {min(200, frame.shape[0])} × {min(200, frame.shape[1])} of {frame.shape[0]} × {frame.shape[1]}."
        frame = frame.iloc[:200, :200]
    values = np.column_stack([to_float(frame.iloc[:, i]) for i in range(frame.shape[1])])
    node = {"kind": "heatmap", "x": {"t": "cat", "v": [_category(c) for c in frame.columns]},
            "y": {"t": "cat", "v": [_category(i) for i in frame.index]},
            "z": {"t": "num", "v": [decimate.rounded(np, row) for row in values]}, "s": []}
    for axis, name in (("x", frame.columns.name), ("y", frame.index.name)):
        if name is not None:
            node[axis]["label"] = str(name)
    fmt = formats.parse(spec.format)
    if fmt:
        node["z"]["fmt"] = fmt
    if note:
        node["note"] = note
    return node


def _pivot(spec, table):
    pd = pandas()
    name, y = table.ys[0]
    keys = {"x": table.x.reset_index(drop=True), "y": y.reset_index(drop=True)}
    for axis in keys:
        if kind_of(keys[axis]) == "num" and keys[axis].nunique() > CATEGORIES_MAX:
            keys[axis] = pd.cut(keys[axis], 24).astype(str)
    if table.color is not None and kind_of(table.color) == "num":
        values, agg = pd.Series(to_float(table.color)), _AGGS.get(spec.agg, spec.agg) or "mean"
    else:
        values, agg = pd.Series(1.0, index=range(table.rows)), "sum"
    frame = values.groupby([keys["y"], keys["x"]], observed=True).agg(agg).unstack()
    frame.index.name, frame.columns.name = name, table.x.name
    return frame


def pie(spec, table, px, window, budget):
    np = numpy()
    every = _aggregated(spec, table)
    name, values = every.names[0], every.values[0]
    if (values < 0).any():
        raise Teach("chart(kind=\"pie\"): some parts are negative, which a pie cannot show. Use "
                    "kind=\"bar\".")
    parts = every.take(np.flatnonzero(values > 0))
    note, rest = None, []
    if len(parts) > PIE_MAX:
        parts = parts.take(np.argsort(-parts.values[0], kind="stable"))
        rest = parts.values[0][PIE_MAX - 1:]
        note = f"The {PIE_MAX - 1} largest; {len(rest)} more as Other."
        parts = parts.take(np.arange(PIE_MAX - 1))
    labels, numbers = [_category(i) for i in parts.index.tolist()], _exact(np, parts.values[0])
    if note:
        labels.append("Other")
        numbers += _exact(np, [rest.sum()])
    node = {"kind": "pie", "x": {"t": "cat", "v": labels}, "y": _y_axis(spec, [name]),
            "s": [{"n": str(name), "v": numbers}]}
    if note:
        node["note"] = note
    return node


DRAW = {"line": line, "area": line, "bar": bar, "scatter": scatter, "histogram": histogram, "box": box,
        "heatmap": heatmap, "pie": pie}
