"""Altair charts and Vega-Lite specifications, translated: what they ask of the data is done in pandas."""

from . import chart_data, charts
from .errors import Teach

_MARKS = {"line": "line", "trail": "line", "area": "area", "bar": "bar", "point": "scatter", "circle": "scatter",
          "square": "scatter", "tick": "scatter", "rect": "heatmap", "arc": "pie", "boxplot": "box"}
_AGGREGATES = {"average": "mean", "distinct": "nunique", "valid": "count", "stdev": "std", "variance": "var"}
# pandas' names of the periods that a timeUnit truncates to.
_PERIODS = {"year": "Y", "yearquarter": "Q", "yearmonth": "M", "yearmonthdate": "D", "yearweek": "W"}
_PARTS = {"month": "month_name", "day": "day_name", "date": "day", "hours": "hour", "quarter": "quarter"}
FACETS_MAX = 12


def show(api, spec, data=None):
    if not isinstance(spec, dict):
        raise Teach("altair_chart: give a chart of Altair, or a Vega-Lite specification")
    for key in ("hconcat", "vconcat", "concat"):
        if key in spec:
            parts = spec[key]
            beside = key == "hconcat" and 1 < len(parts) <= 4
            places = [api.inside(c) for c in api.columns(len(parts))] if beside else [api] * len(parts)
            for place, part in zip(places, parts):
                show(place, {"data": spec.get("data"), "datasets": spec.get("datasets"), **part}, data)
            return None
    if "layer" in spec:
        rest = {k: v for k, v in spec.items() if k != "layer"}
        first = spec["layer"][0]
        if len(spec["layer"]) > 1:
            api.board.note("Of a layered chart the first layer is drawn.")
        encoding = {**rest.get("encoding", {}), **first.get("encoding", {})}
        return show(api, {**rest, **first, "encoding": encoding}, data)
    frame = _frame(spec, data)
    frame = _transformed(api, frame, spec.get("transform") or ())
    mark = spec.get("mark")
    name = mark.get("type") if isinstance(mark, dict) else mark
    if name not in _MARKS:
        api.board.note(f"This figure (vega-lite '{name}') can't be drawn here. Drawn marks: {', '.join(_MARKS)}. "
                       "Use matplotlib, or scb.chart. Its data is shown as a table.")
        return api.table(frame)
    return _faceted(api, spec, frame, _MARKS[name])


def _frame(spec, data):
    pd = chart_data.pandas()
    if data is None:
        source = spec.get("data") or {}
        data = source.get("values")
        if data is None and source.get("name"):
            data = (spec.get("datasets") or {}).get(source["name"])
        if data is None and source.get("url"):
            raise Teach("vega_lite_chart: data from a URL is not fetched; give a DataFrame")
    if data is None:
        raise Teach("vega_lite_chart: there are no data")
    return data.copy(deep=False) if hasattr(data, "columns") else pd.DataFrame(data)


def _transformed(api, frame, transforms):
    for step in transforms:
        try:
            if "filter" in step:
                frame = _filtered(frame, step["filter"])
            elif "aggregate" in step:
                frame = _aggregate(frame, step)
            elif "timeUnit" in step:
                frame[step["as"]] = _time_unit(frame[step["field"]], step["timeUnit"])
            elif "bin" in step and "as" in step:
                name = step["as"] if isinstance(step["as"], str) else step["as"][0]
                frame[name] = _binned(frame[step["field"]], step["bin"])
            elif "fold" in step:
                names = step.get("as", ["key", "value"])
                frame = frame.melt([c for c in frame.columns if c not in step["fold"]], step["fold"], *names)
            else:
                api.board.note(f"The transform {next(iter(step))!r} of this chart is not done here.")
        except (KeyError, ValueError, TypeError) as error:
            raise Teach(f"vega_lite_chart: a transform does not fit the data: {error}") from None
    return frame


def _filtered(frame, rule):
    if isinstance(rule, str):
        text = rule.replace("datum.", "").replace("===", "==").replace("!==", "!=").replace("&&", " and ")
        return frame.query(text.replace("||", " or ").replace("!=", "!="))
    if isinstance(rule, dict):
        if "and" in rule:
            for part in rule["and"]:
                frame = _filtered(frame, part)
            return frame
        column = frame[rule["field"]]
        tests = {"equal": column.eq, "lt": column.lt, "lte": column.le, "gt": column.gt, "gte": column.ge}
        for name, test in tests.items():
            if name in rule:
                return frame[test(rule[name])]
        if "oneOf" in rule:
            return frame[column.isin(rule["oneOf"])]
        if "range" in rule:
            return frame[column.between(*rule["range"])]
    raise ValueError("a filter that is not understood")


def _aggregate(frame, step):
    by = step.get("groupby") or []
    out = {}
    for one in step["aggregate"]:
        op, field = _AGGREGATES.get(one["op"], one["op"]), one.get("field")
        if op == "count" and not field:
            out[one["as"]] = frame.groupby(by, sort=False, observed=True).size()
        else:
            out[one["as"]] = frame.groupby(by, sort=False, observed=True)[field].agg(op)
    return chart_data.pandas().DataFrame(out).reset_index()


def _times(column):
    pd = chart_data.pandas()
    if chart_data.kind_of(column) == "time" and not str(column.dtype).startswith("period"):
        return column if column.dtype.kind == "M" else pd.to_datetime(column)
    return pd.to_datetime(column)


def _time_unit(column, unit):
    if isinstance(unit, dict):
        unit = unit.get("unit", "")
    unit = unit.replace("utc", "")
    column = _times(column)
    if unit in _PERIODS:
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        return column.dt.to_period(_PERIODS[unit]).dt.to_timestamp()
    if unit in _PARTS:
        part = getattr(column.dt, _PARTS[unit])
        return part() if callable(part) else part
    raise ValueError(f"the timeUnit {unit!r}")


def _binned(column, bins):
    """The lower end of each value's bin, in steps of 1, 2, 5, as Vega-Lite has it."""
    np = chart_data.numpy()
    values = chart_data.to_float(column)
    low, high = np.nanmin(values), np.nanmax(values)
    if isinstance(bins, dict) and bins.get("step"):
        step = float(bins["step"])
    else:
        most = bins.get("maxbins", 10) if isinstance(bins, dict) else 10
        raw = (high - low) / most or 1
        power = 10 ** np.floor(np.log10(raw))
        step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw - 1e-12)
    return chart_data.pandas().Series(np.floor(values / step) * step, index=column.index, name=column.name)


# ---- encoding ----


def _channel(frame, encoding, name):
    """(column's name, aggregate, title) of a channel; columns that it derives are added to the frame."""
    channel = encoding.get(name)
    if not isinstance(channel, dict) or ("field" not in channel and "aggregate" not in channel):
        return None, None, None
    field, aggregate = channel.get("field"), channel.get("aggregate")
    if isinstance(field, str):
        field = field.replace("\\", "")
    title = channel.get("title") or ((channel.get("axis") or {}).get("title"))
    if field is not None and field not in frame.columns:
        raise Teach(f"altair_chart: no column {field!r}. Columns: {', '.join(map(str, frame.columns))}.")
    if channel.get("timeUnit"):
        frame[f"{field} "] = _time_unit(frame[field], channel["timeUnit"])
        title, field = title or field, f"{field} "
    elif channel.get("type") == "temporal" and chart_data.kind_of(frame[field]) != "time":
        frame[field] = _times(frame[field])
    elif channel.get("bin"):
        frame[f"{field} "] = _binned(frame[field], channel["bin"])
        title, field = title or field, f"{field} "
    aggregate = _AGGREGATES.get(aggregate, aggregate) if isinstance(aggregate, str) else None
    return field, aggregate, title


def _faceted(api, spec, frame, kind):
    encoding = spec.get("encoding") or {}
    facet = encoding.get("facet") or encoding.get("column") or encoding.get("row") or spec.get("facet")
    if isinstance(facet, dict) and facet.get("field") in frame.columns:
        values = list(frame[facet["field"]].dropna().unique())[:FACETS_MAX]
        places = [api.inside(c) for c in api.columns(min(3, len(values)))] if len(values) > 1 else [api]
        for i, value in enumerate(values):
            part = frame[frame[facet["field"]] == value].copy(deep=False)
            _draw(places[i % len(places)], spec, encoding, part, kind, str(value))
        return None
    title = spec.get("title")
    return _draw(api, spec, encoding, frame.copy(deep=False), kind,
                 title.get("text") if isinstance(title, dict) else title)


def _draw(api, spec, encoding, frame, kind, title):
    x, x_agg, x_title = _channel(frame, encoding, "x")
    y, y_agg, y_title = _channel(frame, encoding, "y")
    color, color_agg, _ = _channel(frame, encoding, "color")
    size, _, _ = _channel(frame, encoding, "size")
    options = {"title": title, "x_label": x_title, "y_label": y_title, "agg": y_agg}
    scales = {a: ((encoding.get(a) or {}).get("scale") or {}).get("type") for a in ("x", "y")}
    options["log"] = "".join(a for a in "xy" if scales[a] == "log") or None
    if kind == "pie":
        theta, agg, _ = _channel(frame, encoding, "theta")
        options.update(agg=agg)
        x, y, color = color, theta, None
    if kind in ("bar", "box") and _is_horizontal(frame, x, y, x_agg, y_agg):
        x, y = y, x
        options.update(horizontal=True, agg=x_agg, x_label=y_title, y_label=x_title)
    if kind == "bar" and (encoding.get("y") or {}).get("stack") is None and "stack" in (encoding.get("y") or {}):
        options["stack"] = False
    if kind == "heatmap" and color_agg:
        options["agg"] = color_agg
        color = color or None
    options["sort"] = _sort((encoding.get("x") or encoding.get("y") or {}).get("sort"))
    source = charts.make(frame, charts.Spec(kind, **options), x, y, color, size if kind == "scatter" else None)
    return api.put_chart(source)


def _is_horizontal(frame, x, y, x_agg, y_agg):
    if x_agg and not y_agg:
        return True
    if x is None or y is None or y_agg:
        return False
    return chart_data.kind_of(frame[y]) == "cat" and chart_data.kind_of(frame[x]) == "num"


def _sort(sort):
    if sort in ("-y", "-x", "descending"):
        return "desc"
    return "asc" if sort in ("y", "ascending") and sort == "y" else None
