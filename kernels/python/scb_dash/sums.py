"""Numbers by category, as bars, lines over categories and pies draw them."""

from .chart_data import kind_of, numpy, pandas, to_float


class Sums:
    """index: the categories in order (an index of pandas, or row numbers); names and values: the columns,
    each an array of floats as long as the index."""

    def __init__(self, index, names, values):
        self.index, self.names, self.values = index, names, values

    def __len__(self):
        return len(self.index)

    def take(self, rows):
        return Sums(self.index.take(rows), self.names, [v.take(rows) for v in self.values])

    def sizes(self):
        """Of each row: the sum of what its columns are without their signs."""
        np = numpy()
        return sum((np.nan_to_num(np.abs(v), posinf=np.inf) for v in self.values), np.zeros(len(self)))

    def sorted(self, sort):
        """By what chart(sort=…) says: the category, or the total of the columns."""
        if sort in (None, False):
            return self
        np = numpy()
        if sort in ("x", "-x"):
            rows = self.index.argsort()
            return self.take(rows if sort == "x" else rows[::-1])
        total = sum((np.where(np.isnan(v), 0, v) for v in self.values), np.zeros(len(self)))
        if sort in (True, "-y", "desc", "descending"):
            total = -total
        return self.take(np.argsort(total, kind="stable"))


def of_distinct(table):
    """Where each row is a category of its own, nothing is summed, and grouping would take longer than all
    else that a chart needs. None where one occurs twice."""
    np, pd = numpy(), pandas()
    values = [to_float(y) for _, y in table.ys]
    names = [str(name) for name, _ in table.ys]
    if table.x is None:
        return Sums(np.arange(table.rows), names, values)
    index = pd.Index(table.x)
    if not index.is_unique:
        return None
    sums = Sums(index, names, values)
    if index.hasnans:
        sums = sums.take(np.flatnonzero(~index.isna()))
    if str(index.dtype) == "category":
        return sums.take(np.argsort(sums.index.codes, kind="stable")) if index.ordered else sums
    if kind_of(table.x) in ("time", "num") and not sums.index.is_monotonic_increasing:
        return sums.take(sums.index.argsort())
    return sums


def of_groups(table, agg, groups):
    """Summed, or whatever agg says. groups: [(label, mask or None)], which become columns."""
    pd = pandas()
    x = table.x
    if x is None:
        x = pd.Series([str(i) for i in range(table.rows)], index=table.ys[0][1].index)
    keys = x.reset_index(drop=True)
    ys = table.ys or [("count", None)]
    if agg == "count" and not table.y_given:
        ys = [("count", None)]
    columns = {}
    for label, mask in groups:
        for name, y in ys:
            key = keys if mask is None else keys[mask]
            title = label if label and len(ys) == 1 else (f"{name} · {label}" if label else str(name))
            columns[title] = _grouped(key, y, agg)
    order = keys.dropna().unique()
    if str(keys.dtype) == "category" and keys.cat.ordered:
        used = set(order)
        order = [c for c in keys.cat.categories if c in used]
    elif kind_of(x) in ("time", "num"):
        order = sorted(order)
    frame = pd.DataFrame({k: v.reindex(order) for k, v in columns.items()})
    return Sums(frame.index, list(frame.columns), [to_float(frame.iloc[:, i]) for i in range(frame.shape[1])])


def _grouped(key, y, agg):
    if y is None:
        return key.groupby(key, observed=True, sort=False).size()
    raw = y.reset_index(drop=True)[key.index]
    if agg not in ("count", "nunique"):
        raw = pandas().Series(to_float(raw), index=raw.index)
    grouped = raw.groupby(key, observed=True, sort=False)
    return grouped.sum(min_count=1) if agg in (None, "sum") else grouped.agg(agg)
