"""pandas' DataFrames and Series as typed tables. Never imports pandas.

application/vnd.scb.table+json, in UTF-8:

    { "schema": [ { "name", "type", "dtype", "index"? } ],   one a column, index columns first
      "data":   [ [ … ] ],                                   one array a column, of equal length
      "rows", "totalRows", "totalColumns" }                  what is here, and what the frame has

type is number, string, boolean, datetime (ISO 8601, with the offset where there is a zone), date,
time, duration (seconds) or bytes (their count, as text). A missing value is null; an infinite one
is the text "inf" or "-inf", and an integer beyond 64 bits its digits. `index` is true for the
frame's index, which is left out where it only counts the rows from 0.
"""

import datetime
import json
import math
import numbers
import sys

MIME = "application/vnd.scb.table+json"
ROWS_MAX = 200
COLUMNS_MAX = 50
CELL_MAX = 500  # characters
_INT_END = 1 << 63
BYTES_MAX = 30 * 1024  # what is longer would not stand in an answer; fewer rows do


def is_table(value):
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return False
    kinds = (getattr(pandas, "DataFrame", None), getattr(pandas, "Series", None))
    return None not in kinds and isinstance(value, kinds)


def _missing(value):
    if value is None:
        return True
    try:
        return bool(value != value)  # NaN, NaT
    except Exception:  # pandas.NA, arrays
        return type(value).__name__ == "NAType"


def _clip(text):
    return text if len(text) <= CELL_MAX else f"{text[:CELL_MAX]}… ({len(text)} characters)"


def _number(value):
    if isinstance(value, int):
        return value if -_INT_END <= value < _INT_END else str(value)
    if not isinstance(value, float):
        value = float(value)  # Decimal, Fraction
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def _is_real(value):
    return isinstance(value, numbers.Real) or (
        isinstance(value, numbers.Number) and not isinstance(value, numbers.Complex)
    )  # Decimal is a Number and no more


def _duration(value):
    return value.total_seconds()


def _iso(value):
    return value.isoformat()


# What a column of objects is, if all of its values are. bool before number: it is one; datetime
# before date: the same.
_KINDS = (
    ("boolean", bool, bool),
    ("number", None, _number),
    ("string", str, _clip),
    ("datetime", datetime.datetime, _iso),
    ("date", datetime.date, _iso),
    ("time", datetime.time, _iso),
    ("duration", datetime.timedelta, _duration),
    ("bytes", (bytes, bytearray), lambda value: f"{len(value)} bytes"),
)


def _text(value):
    try:
        return _clip(str(value))
    except Exception:
        return f"<{type(value).__name__}>"


def _column(values):
    """(type, values) of a column whose values are Python or pandas objects."""
    values = [
        value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value
        for value in values
    ]
    present = [value for value in values if not _missing(value)]
    for name, kinds, convert in _KINDS:
        if present and all(isinstance(value, kinds) if kinds else _is_real(value) for value in present):
            if name == "number" and any(isinstance(value, bool) for value in present):
                break
            return name, [None if _missing(value) else convert(value) for value in values]
    return "string", [None if _missing(value) else _text(value) for value in values]


def _typed(series):
    """(type, dtype, values) of a Series of at most ROWS_MAX rows."""
    dtype = series.dtype
    kind = getattr(dtype, "kind", "O")
    values = series.tolist()
    if kind == "i" and not _extension(dtype):
        return "number", str(dtype), values
    if kind == "b" and not _extension(dtype):
        return "boolean", str(dtype), values
    name, values = _column(values)
    if not any(value is not None for value in values):
        # Nothing to judge by but the dtype.
        name = {"f": "number", "i": "number", "u": "number", "b": "boolean", "M": "datetime",
                "m": "duration"}.get(kind, "string")
    return name, str(dtype), values


def _extension(dtype):
    return type(dtype).__module__.split(".")[0] != "numpy"


def _index_columns(frame):
    index = frame.index
    if type(index).__name__ == "RangeIndex" and index.name is None:
        if index.start == 0 and index.step == 1:
            return []
    levels = getattr(index, "nlevels", 1)
    if levels == 1:
        return [(index.name, index.to_series())]
    return [
        (index.names[level], index.get_level_values(level).to_series()) for level in range(levels)
    ]


def _name(label):
    if isinstance(label, tuple):
        return _clip(" · ".join(_text(part) for part in label if part != ""))
    return "" if label is None else _text(label)


def to_json(value):
    """The table as JSON, with fewer rows where BYTES_MAX asks for it."""
    frame = value.to_frame() if not hasattr(value, "columns") else value
    total_rows, total_columns = frame.shape
    shown = frame.iloc[:ROWS_MAX, :COLUMNS_MAX]
    columns = [(label, series, True) for label, series in _index_columns(shown)]
    columns += [(shown.columns[i], shown.iloc[:, i], False) for i in range(shown.shape[1])]
    schema, data = [], []
    for label, series, is_index in columns:
        kind, dtype, values = _typed(series)
        field = {"name": _name(label), "type": kind, "dtype": dtype}
        if is_index:
            field["index"] = True
        schema.append(field)
        data.append(values)
    rows = shown.shape[0]
    while True:
        text = json.dumps(
            {
                "schema": schema,
                "data": [values[:rows] for values in data],
                "rows": rows,
                "totalRows": total_rows,
                "totalColumns": total_columns,
            },
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
        ).encode("utf-8", "replace")
        if len(text) <= BYTES_MAX or rows == 0:
            return text
        rows = min(rows - 1, rows * BYTES_MAX // len(text))


def to_text(value):
    """What pandas prints, within bounds whatever the code set as options, and how to see the rest."""
    pandas = sys.modules["pandas"]
    options = pandas.options.display
    rows = min(options.max_rows or ROWS_MAX, ROWS_MAX)
    columns = min(options.max_columns or COLUMNS_MAX, COLUMNS_MAX)
    width = max(options.width or 0, 160)
    with pandas.option_context(
        "display.max_rows", rows, "display.max_columns", columns, "display.width", width
    ):
        text = repr(value)
    if len(value) > rows:
        text += "\n(show other rows with .iloc[FROM:TO])"
    return text
