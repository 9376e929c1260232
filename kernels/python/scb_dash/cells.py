"""A table's columns and cells as JSON: typed, exact where they can be, cut where they are long."""

import datetime
import decimal
import json
import math

from . import chart_data, formats, frames, wire

CELL_MAX = 500
JSON_MAX = 200
_BIG = 1 << 53


def name_of(label):
    """A column's label as text. A tuple (of several levels) is joined."""
    if isinstance(label, tuple):
        text = " · ".join(str(part) for part in label if str(part) != "")
    else:
        text = "" if label is None else _text(label)
    return wire.text(text, CELL_MAX)


def _text(value):
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def type_of(series):
    """The App's type of a column: int, float, bool, time, date, delta, text, cat, dec, json, bytes."""
    dtype = series.dtype
    name, kind = str(dtype), getattr(dtype, "kind", "O")
    if name == "category":
        return "cat"
    if name.startswith("Sparse"):
        return type_of(series.head(0).sparse.to_dense())
    if name.startswith("datetime64"):
        return "time"
    if name in ("boolean", "bool"):
        return "bool"
    if name[:3] in ("Int", "UIn"):
        return "int"
    if name.startswith("Float"):
        return "float"
    if name.startswith("timedelta"):
        return "delta"
    if name.startswith(("period", "interval", "string", "complex")):
        return "text"
    if kind in "iu":
        return "int"
    if kind == "f":
        return "float"
    return _type_of_objects(series)


def _is_missing(value):
    if value is None:
        return True
    kind = type(value).__name__
    return kind in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def _type_of_objects(series):
    sample = [v for v in series.head(2000).tolist() if not _is_missing(v)]
    if not sample and len(series) > 2000:
        first = series.first_valid_index()
        sample = [] if first is None else [v for v in series.loc[[first]].tolist()]
    if not sample:
        return "text"
    for name, kinds in (("text", str), ("bool", bool), ("time", datetime.datetime), ("date", datetime.date),
                        ("delta", datetime.timedelta), ("dec", decimal.Decimal), ("bytes", (bytes, bytearray)),
                        ("int", int), ("float", (int, float)), ("json", (dict, list, tuple, set))):
        if all(isinstance(v, kinds) for v in sample):
            if name in ("time", "int", "float") or (name == "float" and any(isinstance(v, bool) for v in sample)):
                return _checked(name, series, kinds)
            return name
    return "text"


def _checked(name, series, kinds):
    """Objects whose first ones are numbers may have others behind them: then they are shown as text."""
    values = series.tolist()
    return name if all(_is_missing(v) or isinstance(v, kinds) for v in values) else "text"


def _cut(text):
    text = wire.text(text, 1 << 30) if len(text) <= 4 * CELL_MAX else wire.text(text[: 4 * CELL_MAX], 1 << 30) + (
        text[4 * CELL_MAX:])
    return text if len(text) <= CELL_MAX else f"{text[:CELL_MAX]}… ({len(text):,} characters)"


def _float(value):
    if value != value:
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def _int(value):
    return value if -_BIG <= value <= _BIG else str(value)


def _json(value):
    try:
        text = json.dumps(value, ensure_ascii=False, default=_text)
    except Exception:
        text = _text(value)
    text = wire.text(text, 1 << 30)
    return text if len(text) <= JSON_MAX else f"{text[:JSON_MAX]}…"


def _one(kind, value):
    """One cell of a column of objects."""
    if _is_missing(value):
        return None
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        value = item()
    if kind == "bool":
        return bool(value)
    if kind == "int":
        return _int(int(value))
    if kind == "float":
        return _float(float(value))
    if kind in ("date",):
        return value.isoformat()
    if kind == "delta":
        return value.total_seconds()
    if kind == "dec":
        return _cut(_text(value))
    if kind == "bytes":
        return f"{len(value)} bytes"
    if kind == "json" or isinstance(value, (dict, list)):
        return _json(value)
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value)} bytes"
    return _cut(value if isinstance(value, str) else _text(value))


def column(series, kind):
    """(cells, what the page says of the column) of a few rows."""
    more = {}
    if kind == "cat":
        return _categories(series)
    if kind == "time":
        return _times(series)
    name = str(series.dtype)
    if name.startswith("Sparse"):
        series = series.sparse.to_dense()
    if kind == "delta" and name.startswith("timedelta"):
        return [_float(v) for v in series.dt.total_seconds().tolist()], more
    values = series.tolist()
    native = series.dtype.kind in "iufb" and not hasattr(series.dtype, "na_value")
    if native and kind == "bool":
        return values, more
    if native and kind == "int":
        cells = [_int(v) for v in values]
    elif native and kind == "float":
        return [_float(v) for v in values], more
    else:
        cells = [_one(kind, v) for v in values]
    if kind == "int" and any(isinstance(c, str) for c in cells):
        more["big"] = True
    return cells, more


def _categories(series):
    codes = series.cat.codes.tolist()
    used = sorted({c for c in codes if c >= 0})
    place = {c: i for i, c in enumerate(used)}
    categories = series.cat.categories
    return {
        "dict": [_one("text", categories[c]) for c in used],
        "codes": [place[c] if c >= 0 else None for c in codes],
    }, {}


def _times(series):
    """Milliseconds, wall-clock ones where there is no zone; nanoseconds as text where they matter."""
    if series.dtype.kind == "O":
        cells, zone = [], None
        for value in series.tolist():
            if _is_missing(value):
                cells.append(None)
                continue
            if value.tzinfo is not None:
                zone = "UTC"
                value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
            since = value - datetime.datetime(1970, 1, 1)
            cells.append(since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000)
        return cells, {"tz": zone}
    np = chart_data.numpy()
    zone = getattr(series.dtype, "tz", None)
    if zone is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    raw = series.to_numpy(dtype="datetime64[ns]")
    missing = np.isnat(raw)
    ns = raw.astype(np.int64)
    more = {"tz": None if zone is None else str(zone)}
    if (ns[~missing] % 1_000_000).any():
        more["u"] = "ns"
        return [None if m else str(v) for v, m in zip(ns.tolist(), missing.tolist())], more
    return [None if m else v // 1_000_000 for v, m in zip(ns.tolist(), missing.tolist())], more


def config_of(column_config, label):
    """(label, fmt, hidden) of what a script says of a column."""
    given = (column_config or {}).get(label)
    if given is None and label in (column_config or {}):
        return None, None, True  # None hides it
    if isinstance(given, str):
        return given, None, False
    if isinstance(given, dict):
        return given.get("label"), formats.parse(given.get("format")), bool(given.get("hidden"))
    return None, None, False


def scalar_of(value):
    return frames.scalar(value)
