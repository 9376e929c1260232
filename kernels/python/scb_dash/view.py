"""Any page of any order of a frame without sorting it: bracketed selection (docs/dashboard.md).

A page is the ranks [a, b) of a column. Values around those ranks are bracketed by a sorted sample, the
few candidates between the brackets are sorted, and no index is kept. The order is the one of pandas:
stable, missing values last.
"""

from . import chart_data

SMALL = 200_000  # rows up to which an order is simply computed, and kept
SAMPLE = 65_536
PIECE = 1 << 17
MASKS = 8  # predicates whose masks are kept
KEYS = 8  # columns of which is kept how they sort, and what their texts are
OPS = {"=": "eq", "==": "eq", "≠": "ne", "!=": "ne", "<": "lt", "≤": "le", "<=": "le", ">": "gt",
       "≥": "ge", ">=": "ge"}


def stable_order(np, values, descending):
    """Positions in stable order; those of equal values keep theirs, descending, too."""
    if not descending:
        return np.argsort(values, kind="stable")
    backwards = np.argsort(values[::-1], kind="stable")
    return (len(values) - 1 - backwards)[::-1]


class Key:
    """A column as numbers that sort as it does. missing: a mask, or None."""

    __slots__ = ("values", "missing")

    def __init__(self, np, series):
        self.values, self.missing = _sortable(np, series)
        if self.missing is not None and not self.missing.any():
            self.missing = None


def _sortable(np, series):
    pd = chart_data.pandas()
    name, kind = str(series.dtype), getattr(series.dtype, "kind", "O")
    if name == "category":
        codes = series.cat.codes.to_numpy()
        return codes, codes < 0
    if name.startswith("Sparse"):
        return _sortable(np, series.sparse.to_dense())
    if name.startswith(("datetime64", "timedelta")):
        raw = series.to_numpy(dtype="datetime64[ns]" if name[0] == "d" else "timedelta64[ns]")
        return raw.view(np.int64), np.isnat(raw)
    if name.startswith("period"):
        return series.array.asi8, series.isna().to_numpy()
    if hasattr(series.dtype, "na_value") and hasattr(series.array, "_mask"):
        return np.asarray(series.array._data), np.asarray(series.array._mask)
    if kind in "iub":
        return series.to_numpy(), None
    if kind == "f":
        values = series.to_numpy()
        return values, np.isnan(values)
    try:
        codes, _ = pd.factorize(series, sort=True)
    except Exception:  # lists have no hash, the year 9999 no nanoseconds
        codes = _ranks(np, series)
    return codes, codes < 0


def _ranks(np, series):
    """Ranks of objects as they compare with each other, or else as their texts do; -1: missing."""
    values, missing = series.tolist(), series.isna().to_numpy()
    rows = [i for i in range(len(values)) if not missing[i]]
    try:
        rows.sort(key=values.__getitem__)
    except Exception:
        values = [str(value) for value in values]
        rows.sort(key=values.__getitem__)
    ranks, rank, last = np.full(len(values), -1, np.int64), -1, None
    for i in rows:
        if rank < 0 or values[i] != last:
            rank, last = rank + 1, values[i]
        ranks[i] = rank
    return ranks


class View:
    """A pinned frame, with what was found out about it."""

    def __init__(self, frame):
        self.np = chart_data.numpy()
        self.frame = frame
        self._keys = {}
        self._samples = {}
        self._masks = {}
        self._orders = {}
        self._texts = {}
        self._selected = ((), ""), None

    # ---- which rows ----

    def ids(self, filters, search):
        """Positions of the rows that pass, ascending; None for all of them."""
        state = tuple((f[0], f[1], _hashable(f[2])) for f in filters), search
        if state == self._selected[0]:
            return self._selected[1]
        np, mask = self.np, None
        for at, op, value in filters:
            one = self._mask((at, op, _hashable(value)), lambda: self._predicate(at, op, value))
            mask = one if mask is None else mask & one
        if search:
            one = self._mask(("search", search.lower()), lambda: self._search(search.lower()))
            mask = one if mask is None else mask & one
        ids = None
        if mask is not None:
            ids = np.flatnonzero(mask)
            if len(self.frame) < 1 << 32:
                ids = ids.astype(np.uint32)
        self._selected = state, ids
        self._samples.clear()
        self._orders.clear()
        return ids

    def _mask(self, key, make):
        if key not in self._masks:
            while len(self._masks) >= MASKS:
                del self._masks[next(iter(self._masks))]
            self._masks[key] = make()
        return self._masks[key]

    def _predicate(self, at, op, value):
        np, series = self.np, self.frame.iloc[:, at]
        if op == "empty":
            return series.isna().to_numpy()
        if op in ("contains", "starts"):
            return self._text_mask(at, value, op == "starts")
        if op == "between":
            low, high = (self._typed(series, v) for v in value)
            mask = np.ones(len(series), bool)
            if low is not None:
                mask &= self._compare(series, "ge", low)
            if high is not None:
                mask &= self._compare(series, "le", high)
            return mask & series.notna().to_numpy()
        if op == "in":
            values = [self._typed(series, v) for v in (value if isinstance(value, list) else [value])]
            mask = series.isin([v for v in values if v is not None]).to_numpy()
            return mask | series.isna().to_numpy() if None in values else mask
        if op not in OPS:
            raise ValueError(f"there is no filter {op!r}")
        if value is None:
            empty = series.isna().to_numpy()
            return empty if OPS[op] == "eq" else ~empty
        result = self._compare(series, OPS[op], self._typed(series, value))
        if OPS[op] == "ne":
            return result & series.notna().to_numpy()
        return result

    def _compare(self, series, op, value):
        np = self.np
        if str(series.dtype) == "category" and op not in ("eq", "ne") and not series.cat.ordered:
            series = series.astype(object)
        try:
            result = getattr(series, op)(value)
        except TypeError:
            result = getattr(series.astype(str), op)(str(value))
        return result.fillna(False).to_numpy(dtype=bool) if hasattr(result, "fillna") else np.asarray(result)

    def _typed(self, series, value):
        """What the App sends as JSON, as a value of the column's own type."""
        pd = chart_data.pandas()
        name, kind = str(series.dtype), getattr(series.dtype, "kind", "O")
        if value is None:
            return None
        if name.startswith("datetime64"):
            stamp = pd.Timestamp(value, unit="ms") if isinstance(value, (int, float)) else pd.Timestamp(value)
            zone = getattr(series.dtype, "tz", None)
            if zone is None:
                return stamp.tz_localize(None) if stamp.tzinfo else stamp
            return stamp.tz_localize("UTC" if isinstance(value, (int, float)) else zone) if (
                stamp.tzinfo is None) else stamp
        if name.startswith("timedelta"):
            return pd.Timedelta(value, unit="s") if isinstance(value, (int, float)) else pd.Timedelta(value)
        if kind in "iuf" or name[:3] in ("Int", "UIn", "Flo"):
            if isinstance(value, str):
                return int(value) if value.lstrip("-").isdigit() else float(value)
            return value
        if kind == "b" or name == "boolean":
            return value in (True, "true", "True", 1)
        if kind == "O":
            return self._like_first(series, value)
        return value

    def _like_first(self, series, value):
        """For columns of objects: of dates, Decimals and their like, the value as one of them."""
        first = series.first_valid_index()
        if first is None or isinstance(value, bool):
            return value
        sample = series.loc[first] if not hasattr(series.loc[first], "iloc") else series.loc[first].iloc[0]
        try:
            if hasattr(sample, "isoformat") and isinstance(value, str):
                return type(sample).fromisoformat(value)
            if type(sample).__name__ == "Decimal":
                return type(sample)(str(value))
        except ValueError:
            pass
        return value

    def _uniques(self, at):
        """(codes, lower-case texts of the distinct values) of a column of text."""
        if at not in self._texts:
            _drop_oldest(self._texts)
            pd = chart_data.pandas()
            series = self.frame.iloc[:, at]
            if str(series.dtype) == "category":
                codes, uniques = series.cat.codes.to_numpy(), series.cat.categories
            else:
                try:
                    codes, uniques = pd.factorize(series)
                except TypeError:
                    codes, uniques = pd.factorize(series.astype(str))
            self._texts[at] = codes, [str(u).lower() for u in uniques]
        return self._texts[at]

    def _text_mask(self, at, text, start):
        np = self.np
        codes, texts = self._uniques(at)
        text = str(text).lower()
        hit = np.fromiter((t.startswith(text) if start else text in t for t in texts), bool, len(texts))
        if not len(hit):
            return np.zeros(len(codes), bool)
        return hit[codes] & (codes >= 0)

    def _search(self, text):
        """Rows with the text anywhere in a column of text."""
        mask = self.np.zeros(len(self.frame), bool)
        for at in range(self.frame.shape[1]):
            dtype = self.frame.dtypes.iloc[at]
            if dtype.kind == "O" or str(dtype) in ("category", "string"):
                mask |= self._text_mask(at, text, False)
        return mask

    # ---- in which order ----

    def key(self, at):
        if at not in self._keys:
            _drop_oldest(self._keys)
            self._keys[at] = Key(self.np, self.frame.iloc[:, at])
        return self._keys[at]

    def page(self, a, b, order, filters=(), search=""):
        """Positions of the rows of ranks [a, b) in that order of columns [(at, descending)], and how
        many rows there are."""
        np = self.np
        ids = self.ids(filters, search)
        n = len(self.frame) if ids is None else len(ids)
        a, b = max(0, min(a, n)), max(0, min(b, n))
        if not order:
            return (np.arange(a, b) if ids is None else ids[a:b].astype(np.int64)), n
        if n <= SMALL:
            return self._whole_order(order, ids, n)[a:b], n
        return self._select(a, b, order, ids, n), n

    def _whole_order(self, order, ids, n):
        key = tuple(order)
        if key not in self._orders:
            while len(self._orders) >= MASKS:
                del self._orders[next(iter(self._orders))]
            rows = self.np.arange(n) if ids is None else ids.astype(self.np.int64)
            self._orders[key] = self._ordered(rows, order)
        return self._orders[key]

    def _ordered(self, rows, order):
        """The rows (ascending positions) in order, by the last key first: each sort is stable."""
        np = self.np
        for at, descending in reversed(order):
            key = self.key(at)
            if key.missing is None:
                rows = rows[_sorted_values(np, key.values[rows], descending)]
                continue
            gone = key.missing[rows]
            there = rows[~gone]
            rows = np.concatenate(
                [there[_sorted_values(np, key.values[there], descending)], rows[gone]]
            )
        return rows

    def _valid(self, at, ids):
        """(ids of the rows that have a value, or None for all; ids of those that have none)."""
        np, key = self.np, self.key(at)
        if key.missing is None:
            return ids, np.zeros(0, np.int64)
        gone = key.missing if ids is None else key.missing[ids]
        if ids is None:
            return np.flatnonzero(~gone), np.flatnonzero(gone)
        return ids[~gone], ids[gone].astype(np.int64)

    def _sampled(self, at, ids):
        """The column's values in those rows, and a sorted sample of them; kept while the rows stay."""
        if at not in self._samples:
            np = self.np
            there, gone = self._valid(at, ids)
            values = self.key(at).values if there is None else self.key(at).values[there]
            random = np.random.Generator(np.random.PCG64(7))  # not the script's
            picks = random.integers(0, max(len(values), 1), min(SAMPLE, len(values)))
            self._samples.clear()
            self._samples[at] = there, gone, values, np.sort(values[picks])
        return self._samples[at]

    def _select(self, a, b, order, ids, n):
        np = self.np
        at, descending = order[0]
        there, gone, values, sample = self._sampled(at, ids)
        valid = len(values)
        parts = []
        if a < valid:
            end = min(b, valid)
            low, high = (valid - end, valid - a) if descending else (a, end)
            cand, before = self._bracket(values, sample, low, high, descending)
            rows = cand if there is None else there[cand].astype(np.int64)
            rows = self._ordered(rows, order)
            parts.append(rows[a - before : end - before])
        if b > valid:
            rest = self._ordered(gone, order[1:]) if len(order) > 1 else gone
            parts.append(rest[max(0, a - valid) : b - valid])
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _narrowed(self, values, cand, below, low, high):
        """Of the candidates those between the very values at the two ranks: the page, and its ties."""
        np, found = self.np, values[cand]
        first, last = low - below, max(low, high - 1) - below
        ends = np.partition(found, (first, last))
        inside = (found >= ends[first]) & (found <= ends[last])
        return cand[inside], below + int(np.count_nonzero(found < ends[first]))

    def _between(self, values, lower, upper):
        """(positions of lower ≤ v ≤ upper, how many are below), in pieces that stay in the cache."""
        np, found, below = self.np, [], 0
        for a in range(0, len(values), PIECE):
            piece = values[a : a + PIECE]
            inside = np.ones(len(piece), bool) if upper is None else piece <= upper
            if lower is not None:
                less = piece < lower
                below += int(np.count_nonzero(less))
                inside ^= less
            found.append(np.flatnonzero(inside) + a)
        return np.concatenate(found), below

    def _bracket(self, values, sample, low, high, descending):
        """(candidates' positions, how many rows stand before them) for ascending ranks [low, high)."""
        np, n, m = self.np, len(values), len(sample)
        slack = 4 * int(m ** 0.5)
        while True:
            first = int(low * m / n) - slack
            last = int(high * m / n) + slack
            lower = None if first <= 0 else sample[first]
            upper = None if last >= m - 1 else sample[last]
            if lower is None and upper is None:
                return np.arange(n), 0
            cand, below = self._between(values, lower, upper)
            if low >= below and high <= below + len(cand):
                cand, below = self._narrowed(values, cand, below, low, high)
                return cand, (n - below - len(cand)) if descending else below
            slack *= 4


def _sorted_values(np, values, descending):
    """stable_order(), but nothing is done where all are equal, as in a column of few values."""
    if len(values) > 4096 and values.min() == values.max():
        return np.arange(len(values))
    return stable_order(np, values, descending)


def _drop_oldest(kept):
    while len(kept) >= KEYS:
        del kept[next(iter(kept))]


def _hashable(value):
    return tuple(value) if isinstance(value, list) else value
