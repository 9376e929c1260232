#!/usr/bin/python3
"""make.py FOLDER: writes the trees that the tests of the App's looks show, one JSON file each.

They stand in for answers of the sandbox where a test is about the page alone. `orders` is made up (a
million orders would not fit in a repository), `birdstrikes` is the real file of examples/data, `kinds`
holds one of everything, with the odd values among them.
"""

import json
import os
import sys

import numpy as np
import pandas as pd

HERE = os.path.dirname(os.path.abspath(__file__))
BIRDS = os.path.join(HERE, "../../../examples/data/birdstrikes.csv")
EUR = {"style": "currency", "currency": "EUR"}


def r4(values):
    """Four significant digits, as the wire has them; missing values are null."""
    return [None if pd.isna(v) else float(f"{v:.4g}") for v in values]


def ms(times):
    return [int(t.timestamp() * 1000) for t in pd.DatetimeIndex(times).tz_localize("UTC")]


def column(series, kind, name=None, **more):
    """A table's column with its summary."""
    c = {"n": name or series.name, "t": kind, "missing": int(series.isna().sum()), **more}
    known = series.dropna()
    if kind in ("int", "float", "time", "date") and len(known):
        numbers = known.astype("int64") // 10**6 if kind in ("time", "date") else known.astype(float)
        c["hist"] = [int(n) for n in np.histogram(numbers, bins=18)[0]]
        c["min"], c["max"] = float(numbers.min()), float(numbers.max())
    elif kind in ("cat", "text", "bool"):
        top = known.value_counts().head(6)
        c["top"] = [[v if kind == "bool" else str(v), int(n)] for v, n in top.items()]
        c["uniq"] = int(known.nunique())
    return c


def cells(series, kind):
    if kind in ("time", "date"):
        return [None if pd.isna(t) else int(t.timestamp() * 1000) for t in series.dt.tz_localize("UTC")]
    if kind == "cat":
        c = series.astype("category")
        return {"dict": [str(v) for v in c.cat.categories], "codes": [int(k) for k in c.cat.codes]}
    return [None if pd.isna(v) else v.item() if hasattr(v, "item") else v for v in series]


def table(id, title, frame, kinds, total=None, rows=600):
    """A table's node, and the rows from which the tests' stand-in answers pages."""
    part = frame.head(rows)
    frame = part if total is None else frame
    cols = [column(frame[n], k, fmt=f) if f else column(frame[n], k) for n, (k, f) in kinds.items()]
    node = {"id": id, "t": "table", "title": title, "rows": len(part), "total": total or len(part), "cols": cols,
            "page": {"at": 0, "v": [cells(part.head(100)[n], k) for n, (k, _) in kinds.items()]}}
    return node, {id: {"cols": [{"n": n, "t": k} for n, (k, _) in kinds.items()],
                       "v": [cells(part[n], "text" if k == "cat" else k) for n, (k, _) in kinds.items()]}}


def box(values):
    q1, med, q3 = np.percentile(values, [25, 50, 75])
    low, high = values[values >= q1 - 1.5 * (q3 - q1)].min(), values[values <= q3 + 1.5 * (q3 - q1)].max()
    out = np.sort(values[(values < low) | (values > high)])
    return {"lo": low, "q1": q1, "med": med, "q3": q3, "hi": high, "out": r4(out[-20:]), "more": len(out)}


def tree(id, title, nodes, **more):
    return {"v": 1, "id": id, "rev": 3, "title": title, "status": "ok", "ms": 38, "expires": 900, "notes": [],
            "tree": nodes, **more}


def orders():
    rng = np.random.default_rng(7)
    n = 60000
    cats = ["Furniture", "Lighting", "Kitchen", "Textiles", "Garden"]
    lands = ["Germany", "France", "Spain", "Italy", "Netherlands", "Poland", "Sweden", "Austria"]
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 731, n)), unit="D")
    f = pd.DataFrame({
        "order_date": day,
        "country": rng.choice(lands, n, p=[.26, .19, .14, .12, .1, .08, .06, .05]),
        "category": rng.choice(cats, n, p=[.34, .2, .21, .14, .11]),
        "units": rng.choice([1, 2, 3, 4, 5, 6], n, p=[.55, .25, .1, .05, .03, .02]),
        "price": np.round(np.exp(rng.normal(3.9, .7, n)), 2),
        "discount": rng.choice([0, .05, .1, .2], n, p=[.7, .15, .1, .05]),
    })
    f["price"] *= f.category.map({"Furniture": 2.6, "Lighting": 1, "Kitchen": .8, "Textiles": .8, "Garden": .85})
    season = 1 + .25 * np.sin((f.order_date.dt.dayofyear - 80) / 58) + (f.order_date.dt.month.isin([11, 12])) * .5
    f["revenue"] = np.round(f.units * f.price * (1 - f.discount) * season, 2)
    f["delivery_days"] = np.where(rng.random(n) < .012, np.nan, np.round(rng.gamma(6, .6, n), 1))
    f["returned"] = rng.random(n) < .042
    week = f.groupby([pd.Grouper(key="order_date", freq="W"), "category"]).revenue.sum().unstack()[cats].iloc[1:-1]
    land = f.groupby(["country", "category"]).revenue.sum().unstack()[cats] * 16
    land = land.loc[land.sum(axis=1).sort_values(ascending=False).index]
    share = f.groupby("category").revenue.sum().sort_values(ascending=False) * 16
    hour = np.outer([1, 1, .97, .98, 1.1, .8, .75], 50 + 5200 * np.exp(-((np.arange(24) - 13.5) / 4) ** 2))
    edges = np.geomspace(2, 3000, 37)
    counts = np.histogram(f.revenue, bins=edges)[0]
    some = f.sample(1500, random_state=1)
    walk = np.cumsum(rng.normal(0, 1, 100000))
    every = np.unique(np.concatenate([np.arange(0, 100000, 60), [int(walk.argmin()), int(walk.argmax())]]))
    grid = [
        {"id": "g1", "t": "grid", "cols": [2, 1], "of": [
            {"id": "c1", "t": "chart", "kind": "area", "stack": True, "title": "Weekly revenue by category",
             "x": {"t": "time", "enc": {"t0": ms(week.index)[0], "step": 7 * 86400000, "n": len(week)}},
             "y": {"fmt": EUR}, "s": [{"n": c, "v": r4(week[c] * 16)} for c in cats]},
            {"id": "c2", "t": "chart", "kind": "pie", "title": "Share of revenue", "x": {"t": "cat", "v": list(share.index)},
             "y": {"fmt": EUR}, "s": [{"n": "revenue", "v": r4(share)}]}]},
        {"id": "g2", "t": "grid", "cols": [1, 1, 1], "of": [
            {"id": "c3", "t": "chart", "kind": "bar", "stack": True, "title": "Revenue by country and category",
             "x": {"t": "cat", "v": list(land.index)}, "y": {"fmt": EUR}, "s": [{"n": c, "v": r4(land[c])} for c in cats]},
            {"id": "c4", "t": "chart", "kind": "heatmap", "title": "Orders by weekday and hour",
             "x": {"t": "cat", "label": "hour", "v": [f"{h:02}" for h in range(24)]},
             "y": {"t": "cat", "v": "Mon Tue Wed Thu Fri Sat Sun".split()}, "z": {"label": "orders", "v": [r4(r) for r in hour]}},
            {"id": "c5", "t": "chart", "kind": "box", "title": "Delivery time", "x": {"t": "cat", "v": lands}, "y": {"label": "days"},
             "s": [{"n": "days", "box": [box(f.delivery_days[f.country == c].dropna().to_numpy()[:2500] + i / 5) for i, c in enumerate(lands)]}]}]},
        {"id": "g3", "t": "grid", "cols": [1, 1, 1], "of": [
            {"id": "c6", "t": "chart", "kind": "histogram", "title": "Order value",
             "x": {"t": "num", "label": "€, log scale", "log": True, "edges": r4(edges)}, "y": {}, "s": [{"n": "orders", "v": [int(c) for c in counts]}]},
            {"id": "c7", "t": "chart", "kind": "scatter", "title": "Price and revenue per order",
             "x": {"t": "num", "label": "price, €", "log": True}, "y": {"label": "revenue, €", "log": True},
             "s": [{"n": c, "x": r4(g.price), "v": r4(g.revenue)} for c, g in some.groupby("category") if c in cats[:3]]},
            {"id": "c8", "t": "chart", "kind": "line", "title": "Sensor, 100,000 readings", "of": 100000,
             "x": {"t": "time", "enc": {"t0": 1735689600000, "u": 60000, "d": [int(d) for d in np.diff(every)]}},
             "y": {}, "s": [{"n": "reading", "v": r4(walk[every])}]}]},
    ]
    spark = week.sum(axis=1)[-30:]
    metrics = [
        {"id": "m1", "t": "metric", "label": "Revenue", "value": 39927000, "fmt": EUR, "delta": .157, "dfmt": {"style": "percent"}, "good": "up", "spark": r4(spark)},
        {"id": "m2", "t": "metric", "label": "Orders", "value": 386165, "fmt": {"compact": True}, "delta": .158, "dfmt": {"style": "percent"}, "good": "up", "spark": r4(spark.rolling(3, 1).mean())},
        {"id": "m3", "t": "metric", "label": "Average order", "value": 103.4, "fmt": EUR, "delta": -.001, "dfmt": {"style": "percent"}, "good": "down", "spark": r4(rng.normal(100, 3, 30))},
        {"id": "m4", "t": "metric", "label": "Return rate", "value": .0425, "fmt": {"style": "percent", "digits": 2}, "delta": "-0.06 pp", "good": "up", "spark": r4(rng.normal(4.2, .2, 30))},
    ]
    bar = {"id": "k", "t": "controls", "of": [
        {"id": "k1", "t": "select", "label": "Compare with", "value": "Previous year", "options": ["Previous year", "Previous period", "Nothing"]},
        {"id": "k2", "t": "multiselect", "label": "Category", "value": cats, "options": cats},
        {"id": "k3", "t": "date_range", "label": "Period", "value": ["2025-01-01", "2025-12-31"], "min": "2024-01-01", "max": "2025-12-31"},
        {"id": "k4", "t": "slider", "label": "Minimum order", "value": 0, "min": 0, "max": 500, "step": 10, "fmt": {**EUR, "digits": 0}},
        {"id": "k5", "t": "toggle", "label": "Exclude returns", "value": False}]}
    f = f.sort_values("order_date", ascending=False).reset_index(drop=True)
    pct = {"style": "percent", "digits": 0}
    t, data = table("t1", "Orders", f, {"order_date": ("date", None), "country": ("cat", None), "category": ("cat", None), "units": ("int", None), "price": ("float", {**EUR, "digits": 2}),
                    "discount": ("float", pct), "revenue": ("float", {**EUR, "digits": 2}), "delivery_days": ("float", {"digits": 1}), "returned": ("bool", None)}, len(f))
    return tree("d-orders00000000000000", "European orders", [bar, *metrics, *grid, t],
                about="60,000 orders from 8 countries. Revenue is net of discounts."), data


def birdstrikes():
    f = pd.read_csv(BIRDS)
    f.columns = [c.strip() for c in f.columns]
    date = next(c for c in f.columns if "date" in c.lower())
    f[date] = pd.to_datetime(f[date], errors="coerce")
    texts = [c for c in f.columns if f[c].dtype == object][:6]
    numbers = [c for c in f.columns if f[c].dtype.kind in "if"][:4]
    month = f.set_index(date).resample("M").size()
    cat = texts[1]
    top = f[cat].value_counts().head(12)
    kinds = {date: ("date", None), **{c: ("text", None) for c in texts}, **{c: ("float", None) for c in numbers}}
    t, data = table("t1", "birdstrikes", f, kinds)
    nodes = [
        {"id": "k", "t": "controls", "of": [{"id": "k1", "t": "select", "label": texts[0], "value": None, "placeholder": "All",
                                             "options": [str(v) for v in f[texts[0]].dropna().unique()[:400]]}]},
        {"id": "m1", "t": "metric", "label": "Strikes", "value": len(f)},
        {"id": "m2", "t": "metric", "label": "Missing", "value": int(f.isna().sum().sum())},
        {"id": "c1", "t": "chart", "kind": "line", "title": "Strikes a month", "x": {"t": "time", "v": ms(month.index)}, "y": {}, "s": [{"n": "strikes", "v": r4(month)}]},
        {"id": "c2", "t": "chart", "kind": "bar", "title": f"Most frequent: {cat}", "x": {"t": "cat", "v": [str(v) for v in top.index]}, "y": {}, "s": [{"n": "strikes", "v": r4(top)}]},
        t,
    ]
    return tree("d-birds000000000000000", "Bird strikes", nodes), data


XSS = "<img src=x onerror=\"document.title='hit'\"></script><b>bold</b>"
TEXT = f"""## Findings
**Revenue** grew by *15.7 %*, see [the report](https://example.org/report) and `orders.csv`.

1. First
2. Second
   - nested `code`

> A quoted line

| Country | Orders |
| --- | ---: |
| Germany | 100,406 |
| France | 73,371 |

```python
orders.groupby("country").revenue.sum()
```
{XSS} and [bad](javascript:alert(1))
"""


def kinds():
    """One of everything, and what is odd about data."""
    opts = [f"Option {i}" for i in range(2000)]
    hours = [1711843200000 + i * 3600000 for i in range(48)]
    controls = [
        {"t": "select", "label": "Select", "value": "Two", "options": ["One", "Two", XSS]},
        {"t": "select", "label": "Long select", "value": opts[7], "options": opts},
        {"t": "radio", "label": "Radio", "value": "A", "options": ["A", "B", "C"]},
        {"t": "segmented", "label": "Segmented", "value": "Day", "options": ["Day", "Week", "Month"]},
        {"t": "pills", "label": "Pills", "value": ["red"], "options": ["red", "green", "blue"]},
        {"t": "multiselect", "label": "Multi", "value": ["a", "c"], "options": list("abcdef")},
        {"t": "slider", "label": "Slider", "value": 30, "min": 0, "max": 100, "step": 1},
        {"t": "range", "label": "Range", "value": [20, 60], "min": 0, "max": 100, "step": 5},
        {"t": "select_slider", "label": "Size", "value": "M", "options": ["S", "M", "L", "XL"]},
        {"t": "number", "label": "Number", "value": 3, "min": 0, "max": 10, "step": 1},
        {"t": "date", "label": "Day", "value": "2025-06-01"},
        {"t": "date_range", "label": "Days", "value": ["2025-06-01", "2025-06-30"], "min": "2025-01-01", "max": "2025-12-31"},
        {"t": "time", "label": "At", "value": "08:30"},
        {"t": "checkbox", "label": "Checkbox", "value": True},
        {"t": "toggle", "label": "Toggle", "value": True, "help": "What the toggle is for"},
        {"t": "text", "label": "Text", "value": "", "placeholder": "Type here"},
        {"t": "text_area", "label": "Area", "value": "several\nlines"},
        {"t": "button", "label": "Press"},
        {"t": "download", "label": "Save it"},
        {"t": "select", "label": "No options", "value": None, "options": []},
        {"t": "slider", "label": "Disabled", "value": 5, "min": 0, "max": 10, "disabled": True},
    ]
    for i, c in enumerate(controls):
        c["id"] = f"k{i}"
    cat = {"t": "cat", "v": ["a", "b", "c"]}
    charts = [
        ("line", "Gaps, a single point, DST", {"x": {"t": "time", "tz": "Europe/Berlin", "v": hours}, "s": [
            {"n": "a", "v": [None if 10 < i < 14 or 20 < i < 23 or 23 < i < 26 else i % 7 for i in range(48)]}, {"n": "b", "v": [5 - i % 5 for i in range(48)]}]}),
        ("line", "One point", {"x": {"t": "time", "v": [1735689600000]}, "s": [{"n": "a", "v": [3]}]}),
        ("line", "Nothing", {"x": {"t": "time", "v": []}, "s": [{"n": "a", "v": []}]}),
        ("line", "All missing", {"x": {"t": "num", "v": [1, 2, 3]}, "s": [{"n": "a", "v": [None] * 3}]}),
        ("bar", "Negative", {"x": {"t": "cat", "v": ["North", "East", "South", "West"]}, "s": [{"n": "change", "v": [12, -7, 3, -15]}]}),
        ("bar", "Grouped", {"x": cat, "s": [{"n": f"s{i}", "v": [i + 1, 3 - i, 2 + i]} for i in range(3)]}),
        ("bar", "By month", {"x": {"t": "time", "v": ms(pd.date_range("2024-01-01", periods=18, freq="MS"))}, "s": [{"n": "orders", "v": [10 + i * (i % 4) for i in range(18)]}]}),
        ("bar", "Long names", {"x": {"t": "cat", "v": [f"A rather long category name number {i}" for i in range(9)] + [XSS]}, "s": [{"n": "n", "v": list(range(1, 11))}]}),
        ("area", "Area, not stacked", {"x": {"t": "num", "v": list(range(40)), "label": "step"}, "y": {"label": "loss"}, "stack": False, "s": [{"n": "loss", "v": [round(3 / (1 + i / 8), 3) for i in range(40)]}]}),
        ("scatter", "20,000 points", {"x": {"t": "num", "label": "x"}, "y": {"label": "y"}, "s": [{"n": "p", "x": r4(np.random.default_rng(1).normal(0, 1, 6000)), "v": r4(np.random.default_rng(2).normal(0, 1, 6000))}], "of": 20000}),
        ("scatter", "Density", {"of": 1000000, "x": {"t": "num"}, "s": [], "density": {"nx": 60, "ny": 40, "x": [0, 10], "y": [-3, 3],
            "c": [int(2000 * np.exp(-((i - 30) / 12) ** 2 - ((j - 20) / 9) ** 2)) for j in range(40) for i in range(60)]}}),
        ("heatmap", "Correlation", {"x": {"t": "cat", "v": ["units", "price", "revenue", "days"]}, "y": {"t": "cat", "v": ["units", "price", "revenue", "days"]},
            "z": {"label": "r", "v": [[1, -.05, .48, .01], [-.05, 1, .79, -.02], [.48, .79, 1, None], [.01, -.02, None, 1]]}}),
        ("pie", "Many parts", {"x": {"t": "cat", "v": [f"part {i}" for i in range(7)] + ["Other"]}, "s": [{"n": "v", "v": [30, 20, 15, 10, 8, 6, 5, 6]}]}),
        ("histogram", "Two groups", {"x": {"t": "num", "edges": list(range(0, 22, 2))}, "s": [{"n": "a", "v": [1, 4, 9, 14, 9, 4, 2, 1, 0, 0]}, {"n": "b", "v": [0, 1, 2, 5, 9, 12, 8, 5, 2, 1]}]}),
        ("box", "Groups", {"x": {"t": "cat", "v": ["x", "y"]}, "y": {"label": "score"}, "s": [{"n": "all", "box": [{"lo": 1, "q1": 2, "med": 3, "q3": 4.5, "hi": 7, "out": [9, 10], "more": 30}, None]}]}),
        ("violin", "A kind from the future", {}),
    ]
    nodes = [{"id": f"c{i}", "t": "chart", "kind": k, "title": t, **m} for i, (k, t, m) in enumerate(charts)]
    odd = pd.DataFrame({"when": pd.to_datetime(["2025-03-30 01:30", None, "1700-01-01"] * 5), "n": [1.5, None, -0.0] * 5, "text": [XSS, "\u202eright to left", "😀 " + "long " * 90] * 5})
    t, data = table("t1", XSS, odd, {"when": ("time", None), "n": ("float", None), "text": ("text", None)})
    t["cols"] += [{"n": "big", "t": "int"}, {"n": "inf", "t": "float"}, {"n": "__proto__", "t": "bool"}, {"n": "", "t": "json"}, {"n": "span", "t": "delta"}, {"n": "aware", "t": "time", "tz": "UTC"}, {"n": "ns", "t": "time", "u": "ns"}]
    t["page"]["v"] += [["9007199254740993"] * 15, ["inf", "-inf", None] * 5, [True, False, None] * 5, ['{"a":1}'] * 15, [90061] * 15, [1711846800000] * 15, ["1711846800123456789"] * 15]
    grids = [{"id": f"g{i}", "t": "grid", "cols": [1, 1], "of": nodes[i:i + 2]} for i in range(0, len(nodes), 2)]
    inside = [
        {"id": "md", "t": "md", "text": TEXT},
        {"id": "n1", "t": "note", "level": "success", "text": "All **386,165** orders were read"},
        {"id": "n2", "t": "note", "level": "warning", "text": "4,668 values are missing"},
        {"id": "code", "t": "code", "text": "x = 1\nprint(x)", "lang": "python"},
        {"id": "js", "t": "json", "v": {"a": [1, 2, {"b": None}], "s": XSS}},
        {"id": "dv", "t": "divider"},
        {"id": "tabs", "t": "tabs", "names": ["First", "Second"], "of": [{"id": "b1", "t": "box", "of": [{"id": "x1", "t": "md", "text": "in the first"}]}, {"id": "b2", "t": "box", "of": [{"id": "x2", "t": "md", "text": "in the second"}]}]},
        {"id": "ex", "t": "expander", "label": "More", "open": False, "of": [{"id": "x3", "t": "md", "text": "was hidden"}]},
        {"id": "im", "t": "image", "w": 320, "h": 120, "alt": "a figure", "ref": "im", "mime": "image/png"},
        {"id": "fut", "t": "hologram"},
    ]
    form = {"id": "fm", "t": "box", "border": True, "form": "f1", "of": [
        {"id": "f1a", "t": "text", "label": "Name", "value": ""}, {"id": "f1b", "t": "button", "label": "Send", "primary": True, "submit": True}]}
    metrics = [{"id": "m1", "t": "metric", "label": XSS, "value": None}, {"id": "m2", "t": "metric", "label": "Text", "text": "+4 %"}, {"id": "m3", "t": "metric", "label": "Flat", "value": 0, "delta": 0},
               {"id": "m4", "t": "metric", "label": "Bytes", "value": 1234567, "fmt": {"style": "bytes"}}, {"id": "m5", "t": "metric", "label": "Duration", "value": 93784, "fmt": {"style": "duration"}}]
    return tree("d-kinds000000000000000", XSS, [{"id": "k", "t": "controls", "of": controls}, form, *metrics, *inside, *grids, t], notes=["A note of the run", "Another", XSS]), data


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    for make in (orders, birdstrikes, kinds):
        made, data = make()
        with open(os.path.join(out, f"{make.__name__}.json"), "w", encoding="utf-8") as f:
            json.dump({"tree": made, "data": data}, f, separators=(",", ":"), allow_nan=False)


main()
