"""A shown table: its columns, their heads, and the pages that the App asks for."""

import os

from . import cells, chart_data, formats, frames, view
from .errors import Teach

PAGE_ROWS = 100
FIRST_ROWS = 25
COLUMNS_MAX = 60
HEAD_CELLS = 3_000_000  # rows × columns up to which heads are computed with the first page
HISTOGRAM_BINS = 18
SAMPLE_AT = 500_000  # rows beyond which a distribution is taken from a sample
PAGE_BYTES = 200 * 1000
PIN_MAX = 256 << 20


class Table:
    """One shown frame. The frame is a shallow copy; see replay for what is written into it later."""

    def __init__(self, value, columns=None, format=None, height=None, sort=None, index="auto", title=None,
                 column_config=None, hide_index=False, column_order=None):
        self.title, self.height = title, height
        self.note = None
        frame = frames.to_frame(value)
        if frame is None:
            raise Teach(f"table: a {type(value).__name__} is no table. Give a DataFrame, a Series, a list of "
                        "dicts or a dict of columns.")
        if frames.is_series(value):
            hide_index = hide_index and type(frame.index).__name__ == "RangeIndex"
        self._choose(frame, columns or column_order)
        self._index(index, hide_index)
        self.config = column_config if isinstance(column_config, dict) else {}
        self.format = format
        self.view = view.View(self.frame)
        self.types = {}
        self.heads = {}
        self.sort = self._given_sort(sort)

    def pin(self, ids):
        """What lies in that memory is about to be changed: a copy is shown from now on."""
        from . import objects

        if objects.buffers_of(self.frame).isdisjoint(ids):
            return
        if objects.size_of(self.frame) > PIN_MAX:
            self.note = "Shows the frame as it is now: it was changed after it was shown, and is too large to copy."
        else:
            self.frame = self.frame.copy()
        self.view = view.View(self.frame)

    def _choose(self, frame, columns):
        if columns is not None:
            columns = [columns] if isinstance(columns, str) else list(columns)
            for name in columns:
                if name not in frame.columns:
                    from . import errors
                    raise errors.no_column("table", name, list(frame.columns))
            frame = frame[columns]
        self.frame = frame.copy(deep=False)

    def _index(self, index, hide):
        """Index levels stand as columns in front, unless the index only counts rows."""
        pd = chart_data.pandas()
        own = self.frame.index
        plain = chart_data.counts_rows(own)
        self.n_index = 0
        if hide or index is False or (index == "auto" and plain):
            self.frame.index = pd.RangeIndex(len(self.frame))
            self.labels = list(self.frame.columns)
            return
        levels = [own.get_level_values(i) for i in range(own.nlevels)]
        self.n_index = len(levels)
        self.labels = [level.name for level in levels] + list(self.frame.columns)
        rows = pd.RangeIndex(len(self.frame))
        body = self.frame.copy(deep=False)
        body.index = rows
        body.columns = range(self.n_index, self.n_index + body.shape[1])
        front = pd.DataFrame({i: pd.Series(level, index=rows) for i, level in enumerate(levels)}, index=rows)
        self.frame = pd.concat([front, body], axis=1) if body.shape[1] else front

    def _given_sort(self, sort):
        if sort is None:
            return []
        keys = [sort] if isinstance(sort, (str, tuple)) else list(sort)
        out = []
        for key in keys:
            name, direction = key if isinstance(key, tuple) and len(key) == 2 else (key, "asc")
            if isinstance(name, str) and name.startswith("-") and name not in self.labels:
                name, direction = name[1:], "desc"
            out.append((self.column(name), str(direction).lower().startswith("d")))
        return out

    def column(self, name):
        """The position of a column that the App or the script names: its key, or its label."""
        if isinstance(name, str) and name[:1] == "c" and name[1:].isdigit() and int(name[1:]) < len(self.labels):
            if name not in self.labels:
                return int(name[1:])
        for at, label in enumerate(self.labels):
            if label == name or cells.name_of(label) == name:
                return at
        from . import errors
        raise errors.no_column("table", name, [cells.name_of(label) for label in self.labels])

    # ---- the node ----

    def node(self, request=None):
        """The table node with the page that is asked for: {at, n, sort, filter, search, cols}."""
        request = request or {}
        at, n = _whole(request.get("at"), 0), _whole(request.get("n"), FIRST_ROWS)
        n = min(max(n, 1), PAGE_ROWS)
        order = self.sort
        if request.get("sort") is not None:
            order = [(self.column(c), str(d).startswith("d")) for c, d in request["sort"][:4]]
        filters = [(self.column(f["col"]), str(f.get("op", "=")), f.get("v"))
                   for f in (request.get("filter") or ())[:16]]
        search = str(request.get("search") or "")[:200]
        rows, total = self.view.page(at, at + n, order, filters, search)
        shown, hidden = self._columns(request.get("cols"))
        every = len(self.labels)
        node = {
            "t": "table", "rows": total, "total": len(self.frame),
            "sort": [[f"c{c}", "desc" if d else "asc"] for c, d in order],
            "filter": [{"col": f"c{c}", "op": op, "v": v} for c, op, v in filters], "search": search,
        }
        if self.title:
            node["title"] = str(self.title)
        if self.height and isinstance(self.height, (int, float)):
            node["h"] = int(self.height)
        if self.note:
            node["note"] = self.note
        if every - len(hidden) > len(shown):
            node["ncols"] = every - len(hidden)
        first = min(max(0, at), total)
        heads = bool(request) or len(self.frame) * len(shown) <= HEAD_CELLS
        self._fill(node, shown, rows, first, heads)
        return node

    def _columns(self, wanted):
        hidden = [i for i, label in enumerate(self.labels)
                  if cells.config_of(self.config, label)[2]]
        every = [i for i in range(len(self.labels)) if i not in hidden]
        if wanted:
            try:
                chosen = [self.column(name) for name in wanted[:COLUMNS_MAX]]
                return [i for i in chosen if i in every], hidden
            except Teach:
                text = str(wanted).lower()
                return [i for i in every if text in cells.name_of(self.labels[i]).lower()][:COLUMNS_MAX], hidden
        return every[:COLUMNS_MAX], hidden

    def _fill(self, node, shown, rows, first, heads):
        """Cells of the page; of fewer rows where they are too large for an answer."""
        from . import wire

        while True:
            columns, page, size = [], [], 0
            for at in shown:
                kind = self.types.get(at) or self.types.setdefault(at, cells.type_of(self.frame.iloc[:, at]))
                values, more = cells.column(self.frame.iloc[rows, at], kind)
                columns.append({**self._head(at, kind, heads), **more})
                page.append(values)
                size += len(wire.dumps(values)) if len(rows) else 0
            if size <= PAGE_BYTES or len(rows) <= 1:
                break
            rows = rows[: max(1, int(len(rows) * PAGE_BYTES / size))]
        node["cols"] = columns
        node["page"] = {"at": first, "v": page}

    def _head(self, at, kind, heads):
        label = self.labels[at]
        given, fmt, _ = cells.config_of(self.config, label)
        head = {"n": given or cells.name_of(label), "key": f"c{at}", "t": kind}
        if at < self.n_index:
            head["index"] = True
        if fmt is None:
            fmt = formats.parse(self.format.get(label) if isinstance(self.format, dict) else self.format) if (
                kind in ("int", "float", "dec")) else None
        if fmt:
            head["fmt"] = fmt
        if heads:
            if at not in self.heads:
                try:
                    self.heads[at] = summary(self.frame.iloc[:, at], kind)
                except Exception:  # values that raise when they are compared
                    self.heads[at] = {}
            head.update(self.heads[at])
        return head

    # ---- export ----

    def write(self, path, kind, request=None):
        """The whole filtered, sorted view as a file."""
        request = request or {}
        order = self.sort if request.get("sort") is None else [
            (self.column(c), str(d).startswith("d")) for c, d in request["sort"][:4]]
        filters = [(self.column(f["col"]), str(f.get("op", "=")), f.get("v")) for f in request.get("filter") or ()]
        rows, _ = self.view.page(0, len(self.frame), order, filters, str(request.get("search") or ""))
        whole = self.frame.iloc[rows]
        whole.columns = [cells.name_of(label) for label in self.labels]
        write_frame(whole, path, kind)


def write_frame(frame, path, kind, index=False):
    if kind == "xlsx":
        from . import xlsx

        xlsx.write(frame, path)
    elif kind == "parquet":
        try:
            frame.to_parquet(path, index=index)
        except ImportError:
            raise Teach("parquet needs pyarrow, which this sandbox does not have; csv and xlsx work") from None
    else:
        frame.to_csv(path, index=index)
    return os.path.getsize(path)


def _whole(value, default):
    return int(value) if isinstance(value, (int, float)) and value == value else default


# ---- heads ----


def summary(series, kind):
    """missing, uniq, top, hist, min, max of a column."""
    np = chart_data.numpy()
    n = len(series)
    head = {"missing": int(series.isna().sum())}
    if n == 0:
        return head
    approx = n > SAMPLE_AT
    sample = series.iloc[:: max(1, n // 200_000)] if approx else series
    if kind in ("int", "float", "dec", "delta"):
        _numbers(np, head, series, sample)
    elif kind == "time":
        ms, there, _ = chart_data.to_ms(series)
        _distribution(np, head, ms[there].astype(float), ms[there].astype(float)[:: max(1, n // 200_000)])
    elif kind == "bool":
        there = series.dropna().astype(bool)
        yes = int(there.sum())
        head.update(uniq=int(there.nunique()), top=[[True, yes], [False, len(there) - yes]])
    elif kind in ("text", "cat"):
        _values(head, sample)
    if approx and len(head) > 1:
        head["approx"] = True
    return head


def _numbers(np, head, series, sample):
    values = chart_data.to_float(series)
    good = values[np.isfinite(values)]
    step = max(1, len(good) // 200_000)
    _distribution(np, head, good, good[::step])


def _distribution(np, head, good, sample):
    if not len(good):
        return
    low, high = float(good.min()), float(good.max())
    head["min"], head["max"] = low, high
    if low < high and np.isfinite(high - low):
        head["hist"] = np.histogram(sample, bins=HISTOGRAM_BINS, range=(low, high))[0].tolist()


def _values(head, sample):
    try:
        counts = sample.value_counts()
    except TypeError:  # lists, dictionaries
        return
    counts = counts[counts > 0]
    head["uniq"] = int(len(counts))
    if len(counts) <= 50 or counts.iloc[0] * 50 > len(sample):
        head["top"] = [[cells._one("text", value), int(count)] for value, count in counts.head(4).items()]
