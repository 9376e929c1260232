"""The columns of a chart: which are x, y and colour, what type each is of."""

import datetime
import decimal
import sys

from . import errors, frames
from .errors import Teach

SERIES_MAX = 12
CATEGORIES_MAX = 60


def pandas():
    try:
        import pandas as module
    except ImportError:
        raise Teach("charts need pandas, which this sandbox does not have") from None
    return module


def numpy():
    pandas()
    return sys.modules["numpy"]


def kind_of(series):
    """time, num or cat"""
    dtype = series.dtype
    kind = getattr(dtype, "kind", "O")
    if kind in _KINDS and type(dtype).__module__.startswith("numpy"):
        return _KINDS[kind]
    name = str(dtype)
    if name.startswith("datetime64") or name.startswith("period"):
        return "time"
    if kind in "iufc" or name.startswith(("Int", "UInt", "Float", "timedelta")):
        return "num"
    if name == "category" and series.cat.categories.inferred_type in ("string", "boolean"):
        return "cat"
    return _kind_of_objects(series) if kind == "O" and len(series) else "cat"


_KINDS = {"M": "time", "m": "num", "i": "num", "u": "num", "f": "num", "c": "num", "b": "cat"}


def _kind_of_objects(series):
    values = [v for v in series.head(100).tolist() if not _is_missing(v)][:50]
    if len(values) < 50 < len(series):
        values = series.dropna().head(50).tolist()
    if not values:
        return "cat"
    if all(isinstance(v, (datetime.date, datetime.datetime)) for v in values):
        return "time"
    if all(isinstance(v, (int, float, decimal.Decimal)) and not isinstance(v, bool) for v in values):
        return "num"
    return "cat"


def _is_missing(value):
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def to_float(series):
    """numpy floats; NaN where there is no number."""
    pd, np = pandas(), numpy()
    name = str(series.dtype)
    if name.startswith("timedelta"):
        return series.dt.total_seconds().to_numpy(dtype=float)
    if name.startswith("Sparse"):
        series = series.sparse.to_dense()
    if series.dtype.kind == "c":
        return np.abs(series.to_numpy())
    try:
        return series.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        return pd.to_numeric(series, errors="coerce").to_numpy(dtype=float)


def to_ms(series):
    """(int64 milliseconds, which are there, zone or None). Naive times are wall-clock times."""
    pd, np = pandas(), numpy()
    if str(series.dtype).startswith("period"):
        series = series.dt.to_timestamp()
    elif series.dtype.kind == "O":
        series = pd.to_datetime(series, errors="coerce")
    zone = getattr(series.dtype, "tz", None)
    if zone is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    stamps = series.to_numpy(dtype="datetime64[ns]")
    there = ~np.isnat(stamps)
    return stamps.astype("datetime64[ms]").astype(np.int64), there, None if zone is None else str(zone)


class Data:
    """x: a Series or None; ys: [(name, Series)]; color, size: Series or None."""

    def __init__(self, data, x, y, color, size, spec):
        self.notes = []
        self.frame = None
        self.matrix = None
        pd = pandas()
        if data is not None:
            self.frame = self._as_frame(data)
        if self.frame is not None and self.frame.columns.nlevels > 1:
            self.frame = self.frame.copy(deep=False)
            self.frame.columns = [" · ".join(map(str, c)) for c in self.frame.columns]
        self.index_used = False
        self.x = self._column("x", x)
        self.color = self._column("color", color)
        self.size = self._column("size", size) if not isinstance(size, (int, float)) else None
        self.x_given, self.y_given = x is not None, y is not None
        self._used = {s.name for s in (self.x, self.color, self.size) if s is not None}
        names = [y] if y is not None and (isinstance(y, str) or not isinstance(y, (list, tuple)) or
                                          _is_numbers(y)) else list(y or ())
        self.ys = [(s.name if s.name is not None else "value", s)
                   for s in (self._column("y", name) for name in names)]
        self._spec = spec
        self._pd = pd
        self.rows = self._rows()

    def note_once(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def _as_frame(self, data):
        pd = pandas()
        if frames.is_series(data):
            return data.to_frame(data.name if data.name is not None else "value")
        if frames.is_groupby(data):
            return data.size().to_frame("count")
        frame = frames.to_frame(data)
        if frame is None and isinstance(data, dict):
            frame = pd.Series(data).to_frame("value")
        if frame is None and isinstance(data, (list, tuple, range)):
            frame = pd.DataFrame({"value": list(data)})
        if frame is None:
            raise Teach(f"chart: a {type(data).__name__} cannot be drawn. Give a DataFrame, a Series, "
                        "a dict or a list.")
        return frame

    def _rows(self):
        if self.frame is not None:
            return len(self.frame)
        for series in (self.x, *(s for _, s in self.ys)):
            if series is not None:
                return len(series)
        return 0

    def _column(self, role, given):
        """A Series of a column's name, an array, a list or a Series."""
        if given is None:
            return None
        pd = pandas()
        frame = self.frame
        if frames.is_series(given):
            return given.reset_index(drop=True) if frame is None else given
        if frame is not None and _hashable(given):
            if given in frame.columns:
                column = frame[given]
                return column.iloc[:, 0] if frames.is_frame(column) else column
            if given in frame.index.names or (given == "index" and frame.index.nlevels == 1):
                return frame.index.to_frame(index=True)[given] if given in frame.index.names else (
                    frame.index.to_series())
            if isinstance(given, str) and role == "color" and given.startswith("#"):
                return None
            raise errors.no_column("chart", given, list(frame.columns))
        if isinstance(given, str):
            raise Teach(f"chart: {role}={given!r} names a column, but there is no data: "
                        "scb.chart(df, x=…, y=…)")
        values = list(given) if not hasattr(given, "__len__") else given
        index = frame.index if frame is not None and len(frame) == len(values) else None
        return pd.Series(values, index=index, name=role if role != "y" else "value")

    # ---- what was not said ----

    def _numeric(self):
        if self.frame is None:
            return []
        columns = [(name, self.frame.iloc[:, i]) for i, name in enumerate(self.frame.columns)
                   if name not in self._used]
        return [(name, series) for name, series in columns if kind_of(series) == "num"]

    def index_says_something(self):
        return self.frame is not None and not counts_rows(self.frame.index)

    def _index_as_x(self):
        index = self.frame.index
        if index.nlevels > 1:
            return self._pd.Series([" · ".join(map(str, key)) for key in index], index=index,
                                   name=" · ".join(str(n or "") for n in index.names))
        return self._pd.Series(index, index=index, name=index.name)

    def choose(self, want_x=True):
        """x and y where they were not given: the index, or the first column that fits."""
        frame = self.frame
        if self.x is None and frame is not None and want_x:
            if self.index_says_something():
                self.x = self._index_as_x()
                self.index_used = True
            else:
                for wanted in ("time", "cat"):
                    named = [n for n in frame.columns if n not in self._used and
                             n not in [name for name, _ in self.ys] and _once(frame, n)]
                    found = [n for n in named if kind_of(frame[n]) == wanted]
                    if found:
                        self.x = frame[found[0]]
                        self._used.add(found[0])
                        break
        if not self.ys:
            self.ys = self._numeric()

    def settle(self, spec):
        """For the kind that is drawn: what is missing is chosen, what does not fit is said."""
        kind = spec.kind
        if kind == "histogram":
            if not self.ys and self.x is not None:
                self.ys, self.x = [(self.x.name, self.x)], None
            elif not self.ys:
                self.ys = self._numeric()[:1]
        elif kind == "scatter":
            numbers = self._numeric()
            if self.x is None and numbers:
                names = [name for name, _ in self.ys]
                rest = [(n, s) for n, s in numbers if n not in names]
                self.x = (rest or numbers)[0][1]
                self._used.add(self.x.name)
            if not self.ys:
                self.ys = self._numeric()[:1]
        elif kind == "heatmap":
            pass
        elif kind == "box":
            if not self.ys:
                self.ys = self._numeric()
        else:
            self.choose()
        counted = spec.agg in ("count", "size")
        if not self.ys and kind in ("bar", "pie") and self.x is not None:
            spec.agg = "count"
            counted = True
        if not self.ys and kind not in ("heatmap",) and not counted:
            columns = [] if self.frame is None else list(self.frame.columns)
            raise Teach(f"chart(kind={kind!r}): there is no column of numbers to draw. Columns: "
                        f"{', '.join(map(str, columns[:12]))}. For counts write "
                        f"scb.chart(df, kind=\"bar\", x={str(columns[0] if columns else 'column')!r}, "
                        "agg=\"count\").")
        self._check_numbers(spec, counted)
        if len(self.ys) > SERIES_MAX and kind in ("line", "area", "bar"):
            self.notes.append(f"{len(self.ys)} series: the first {SERIES_MAX} are drawn.")
            self.ys = self.ys[:SERIES_MAX]

    def _check_numbers(self, spec, counted):
        if spec.kind == "heatmap" or counted or spec.agg == "nunique":
            return
        for name, series in self.ys:
            if kind_of(series) == "cat" and str(series.dtype) not in ("bool", "boolean") and len(
                series.dropna()
            ):
                x = self.x.name if self.x is not None else name
                raise Teach(f"chart(kind={spec.kind!r}): y needs numbers, {str(name)!r} is text. For counts "
                            f"write scb.chart(df, kind=\"bar\", x={str(x)!r}, agg=\"count\").")


def counts_rows(index):
    """Is it an index that nobody gave a meaning: row numbers, perhaps of a filtered frame?"""
    if type(index).__name__ == "RangeIndex":
        return index.name is None
    return index.nlevels == 1 and index.name is None and getattr(index.dtype, "kind", "O") in "iu"


def _once(frame, name):
    return list(frame.columns).count(name) == 1


def _hashable(value):
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _is_numbers(value):
    return all(isinstance(v, (int, float)) for v in value)
