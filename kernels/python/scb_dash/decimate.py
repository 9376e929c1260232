"""Fewer points that draw the same picture: M4 for lines, cells for scatters.

M4 keeps of each bucket (a part of a pixel) its first, last, lowest and highest point, so extremes are
exact and a spike of one sample is never lost. Gaps (NaN) stay gaps.
"""

import math


def buckets_for(px):
    """Two a device pixel, up to 2,048; then one."""
    width = px.get("w") or 640
    dpr = min(max(px.get("dpr") or 1, 0.5), 4)
    device = int(max(80, min(width, 4000)) * dpr)
    return 2 * device if 2 * device <= 2048 else max(device, 2048)


def m4(np, x, y, buckets):
    """Indices to keep of points in ascending order of x (no NaN in it). y may hold NaN."""
    n = len(x)
    if n <= 4 * buckets:
        return np.arange(n)
    edges = np.linspace(float(x[0]), float(x[-1]), buckets + 1)
    cuts = np.searchsorted(x, edges[1:-1].astype(x.dtype) if x.dtype.kind == "f" else edges[1:-1])
    starts = [0, *cuts.tolist()]
    ends = [*cuts.tolist(), n]
    missing = np.isnan(y) if y.dtype.kind == "f" else None
    if missing is not None and not missing.any():
        missing = None
    keep = []
    for a, b in zip(starts, ends):
        if b - a <= 4:
            keep.extend(range(a, b))
        elif missing is None:
            keep += _extremes(y[a:b], a)
        else:
            keep += _with_gaps(np, y, missing, a, b)
    return np.asarray(keep, dtype=np.int64)


def _extremes(part, a):
    """First, lowest, highest, last; of a lone spike also its neighbours, so that it stays as thin as it is."""
    low, high, last = int(part.argmin()), int(part.argmax()), len(part) - 1
    chosen = {0, low, high, last}
    first, end, bottom, top = (float(part[i]) for i in (0, last, low, high))
    near = 0.1 * (top - bottom)
    if near > 0:
        if max(first, end) - bottom <= near:
            chosen |= {high - 1, high + 1}
        elif top - min(first, end) <= near:
            chosen |= {low - 1, low + 1}
    return [a + i for i in sorted(chosen)]


def _with_gaps(np, y, missing, a, b):
    gap = missing[a:b]
    if not gap.any():
        return _extremes(y[a:b], a)
    if gap.all():
        return [a]
    there = np.flatnonzero(~gap)
    part = y[a:b][there]
    chosen = {int(there[0]), int(there[-1]), int(there[part.argmin()]), int(there[part.argmax()])}
    first_gap = int(np.argmax(gap))
    chosen.add(first_gap)  # null: the line breaks here
    return sorted(a + i for i in chosen)


def cells(np, x, y, width, height, groups=None):
    """Indices of one point in each half-pixel cell (and group)."""
    xs, ys = _scaled(np, x, 2 * width), _scaled(np, y, 2 * height)
    key = xs.astype(np.int64) * (2 * height + 1) + ys.astype(np.int64)
    if groups is not None:
        key = key * (int(groups.max()) + 1 if len(groups) else 1) + groups
    _, first = np.unique(key, return_index=True)
    first.sort()
    return first


def _scaled(np, values, steps):
    low, high = values.min(), values.max()
    if not high > low:
        return np.zeros(len(values))
    return np.floor((values - low) * (steps / (high - low)))


def density(np, x, y, width, height):
    """Counts in cells of 4 pixels, row by row from y's low end, as the App draws them."""
    nx, ny = max(8, int(width / 4)), max(8, int(height / 4))
    counts, xe, ye = np.histogram2d(x, y, bins=(nx, ny))
    return {
        "nx": nx, "ny": ny, "x": [float(xe[0]), float(xe[-1])], "y": [float(ye[0]), float(ye[-1])],
        "c": counts.T.astype(int).ravel().tolist(),
    }


def digits_for(low, high):
    """Decimals that hold four significant digits of a range."""
    span = high - low
    if not (span > 0 and math.isfinite(span)):
        span = abs(high) or 1
    return max(0, min(15, 4 - int(math.floor(math.log10(span)))))


def rounded(np, values, exact=True):
    """A list for JSON of numbers on an axis; null for what is no number. Extremes stay exact."""
    values = np.asarray(values, dtype=float)
    good = values[np.isfinite(values)]
    if not len(good):
        return [None] * len(values)
    low, high = float(good.min()), float(good.max())
    digits = digits_for(low, high)
    out = []
    for value in values.tolist():
        if value != value or value in (math.inf, -math.inf):
            out.append(None)
        elif exact and (value == low or value == high):
            out.append(_short(value))
        else:
            out.append(_short(round(value, digits)))
    return out


def _short(value):
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def encode_times(np, ms):
    """{t0, step, n} of evenly spaced times, {t0, u, d} of others: integers, small ones."""
    n = len(ms)
    if n == 0:
        return None
    ms = np.asarray(ms, dtype=np.int64)
    steps = np.diff(ms)
    if n > 1 and (steps == steps[0]).all():
        return {"t0": int(ms[0]), "step": int(steps[0]), "n": n}
    unit = int(np.gcd.reduce(np.abs(steps))) if n > 1 else 1
    unit = unit or 1
    return {"t0": int(ms[0]), "u": unit, "d": (steps // unit).tolist()}
