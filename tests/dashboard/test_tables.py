"""Tables of odd frames beside pandas' own answers, the selection without sorting, decimation. Prints TAP.

    SCB_ODD_FRAMES: how many random frames (60)
"""

import datetime
import decimal
import json
import os
import random
import tempfile
import unittest
import zipfile

import oracle
import tap

import numpy as np
import pandas as pd
from scb_dash import cells, chart_data, charts, decimate, tables, view, wire

assert oracle.ROOT  # its import says where scb_dash is
UTC = datetime.timezone.utc
NAMES = ("a", "a", "", None, 7, ("x", "y"), "n" * 10_000, "\u05d0\u05d1", "\U0001f600", "__proto__", "</script>",
         "<img src=x onerror=alert(1)>", "c1", "with\nline", "nul\0", "lone\ud800")


def columns(choose, n):
    """(name, values) of every odd kind."""
    ints = [choose.randint(-5, 5) for _ in range(n)]
    floats = [choose.choice((0.0, -0.0, 1e308, -1e308, np.nan, np.inf, -np.inf, 1.5, 2.0 ** 63)) for _ in range(n)]
    words = [choose.choice(("a", "B", "", "\ud800", "x\0y", "<b>", "é", None, "z" * 600)) for _ in range(n)]
    stamps = pd.to_datetime([choose.choice(("2024-03-31", "2024-03-31 02:30", "1700-01-01", None, "2200-01-01 00:00:00.5"))
                             for _ in range(n)])
    made = {
        "int8": pd.Series(ints, dtype="int8"), "uint64": pd.Series([2 ** 63 + abs(v) for v in ints], dtype="uint64"),
        "Int64": pd.Series([None if v == 0 else v for v in ints], dtype="Int64"), "float16": pd.Series(ints, dtype="float16"),
        "float64": pd.Series(floats), "complex": pd.Series([complex(v, 1) for v in ints]),
        "bool": pd.Series([v > 0 for v in ints], dtype=bool),
        "boolean": pd.Series([None if v == 0 else v > 0 for v in ints], dtype="boolean"),
        "text": pd.Series(words, dtype=object), "string": pd.Series([w if w is None else w.replace("\ud800", "?") for w in words], dtype="string"),
        "mixed": pd.Series([choose.choice((1, "1", 1.5, None, (1,), b"x")) for _ in range(n)], dtype=object),
        "category": pd.Series(pd.Categorical([choose.choice(("u", "v", None)) for _ in range(n)], categories=["w", "v", "u"])),
        "ordered": pd.Series(pd.Categorical([choose.choice("lmh") for _ in range(n)], categories=["l", "m", "h"], ordered=True)),
        "naive": pd.Series(stamps), "aware": pd.Series(stamps).dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"),
        "delta": pd.Series(pd.to_timedelta(ints, unit="h")), "period": pd.Series(pd.period_range("2024-01", periods=n, freq="M")),
        "interval": pd.Series(pd.interval_range(0, periods=n)) if n else pd.Series([], dtype=object),
        "sparse": pd.Series(pd.arrays.SparseArray(ints, fill_value=0)) if n else pd.Series([], dtype=float),
        "lists": pd.Series([[v] * 3 for v in ints], dtype=object), "dicts": pd.Series([{"k": v} for v in ints], dtype=object),
        "bytes": pd.Series([b"ab"] * n, dtype=object), "dec": pd.Series([decimal.Decimal(v) / 3 for v in ints], dtype=object),
        "dates": pd.Series([datetime.date(choose.choice((1, 2024, 9999)), 1, 1) for _ in range(n)], dtype=object),
        "times": pd.Series([datetime.datetime(choose.choice((1, 9999)), 1, 1, tzinfo=choose.choice((UTC,))) for _ in range(n)], dtype=object),
        "big": pd.Series([10 ** 30 + v for v in ints], dtype=object), "none": pd.Series([None] * n, dtype=object),
        "huge": pd.Series(["m" * 1_000_000] * n, dtype=object) if n < 3 else pd.Series(ints),
    }
    return made


def odd_frame(seed):
    choose = random.Random(seed)
    n = choose.choice((0, 1, 1, 3, 30, 150))
    made = columns(choose, n)
    wanted = choose.sample(sorted(made), choose.randint(0, 6))
    frame = pd.concat([made[name] for name in wanted], axis=1) if wanted else pd.DataFrame(index=range(n))
    names = list(wanted)
    for i in range(len(names)):
        if choose.random() < 0.4:
            names[i] = choose.choice(NAMES)
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    return choose, frame, wanted


def cell_text(value):
    """What a cell must be, for the kinds that can be compared exactly."""
    return None if cells._is_missing(value) else value


class OddFrames(unittest.TestCase):
    def check(self, seed):
        choose, frame, kinds = odd_frame(seed)
        table = tables.Table(frame)
        node = wire.clean({"id": "1.0", **table.node({"n": 50})})
        text = wire.encode(node)
        self.assertLess(len(text), wire.TREE_MAX)
        again = json.loads(text.decode("utf-8"), parse_constant=self.fail)
        self.assertEqual((again["rows"], again["total"]), (len(frame), len(frame)))
        self.assertEqual(len(again["cols"]), frame.shape[1])
        for i, column in enumerate(again["cols"]):
            series = frame.iloc[:, i]
            self.assertEqual(column["missing"], int(series.isna().sum()), kinds[i])
            self.assertFalse(any(ord(c) < 32 and c not in "\t\n" for c in column["n"]))
            self.cells(kinds[i], series, again["page"]["v"][i])
        self.pages(choose, table, frame)
        return node

    def cells(self, kind, series, shown):
        if isinstance(shown, dict):
            shown = [None if c is None else shown["dict"][c] for c in shown["codes"]]
        self.assertEqual([v is None for v in shown], series.isna().tolist()[: len(shown)], kind)
        if kind in ("int8", "bool", "Int64", "boolean"):
            self.assertEqual(shown, [cell_text(v) for v in series.tolist()][: len(shown)], kind)
        if kind == "uint64":
            self.assertEqual(shown, [str(v) for v in series.tolist()][: len(shown)])
        if kind == "naive":
            for got, want in zip(shown, series.tolist()):
                if got is not None:
                    self.assertEqual(pd.Timestamp(int(got), unit="ms"), want)

    def pages(self, choose, table, frame):
        sortable = [i for i in range(frame.shape[1]) if self._sorted(frame.iloc[:, i]) is not None]
        for i in sortable:
            for descending in (False, True):
                rows, n = table.view.page(0, len(frame), [(i, descending)])
                want = self._sorted(frame.iloc[:, i], descending)
                self.assertEqual(list(rows), list(want), (i, descending, frame.iloc[:, i].dtype))

    @staticmethod
    def _sorted(series, descending=False):
        try:
            plain = series.reset_index(drop=True)
            if str(plain.dtype).startswith("Sparse"):
                plain = plain.sparse.to_dense()
            return plain.sort_values(ascending=not descending, kind="stable").index
        except TypeError:
            return None

    def test_tables(self):
        for seed in range(int(os.environ.get("SCB_ODD_FRAMES", "60"))):
            with self.subTest(seed=seed):
                self.check(seed)


class Selection(unittest.TestCase):
    """Pages of a large frame are those of a stable sort, though nothing is sorted."""

    @classmethod
    def setUpClass(cls):
        rng = np.random.default_rng(5)
        n = 300_000
        values = rng.normal(size=n)
        values[rng.integers(0, n, 5000)] = np.nan
        cls.frame = pd.DataFrame({
            "f": values, "i": rng.integers(-5, 5, n), "t": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 9999, n), unit="h"),
            "w": rng.choice(["ab", "Ba", "c", None], n), "b": rng.integers(0, 2, n).astype(bool),
            "c": pd.Categorical.from_codes(rng.integers(-1, 4, n), list("dcba"))})
        cls.view = view.View(cls.frame)

    def test_every_order(self):
        for name in self.frame.columns:
            at = self.frame.columns.get_loc(name)
            for descending in (False, True):
                want = self.frame[name].sort_values(ascending=not descending, kind="stable").index
                for a in (0, 1000, 150_000, 294_990, 299_950):
                    rows, n = self.view.page(a, a + 50, [(at, descending)])
                    self.assertEqual(list(rows), list(want[a : a + 50]), (name, descending, a))
                    self.assertEqual(n, len(self.frame))

    def test_what_is_kept_of_columns_is_bounded(self):
        frame = pd.DataFrame({f"t{i}": list("abc") * 4 for i in range(30)})
        one = view.View(frame)
        for at in range(30):
            one.page(0, 5, [(at, False)], [(at, "contains", "b")])
        self.assertEqual((view.KEYS, view.KEYS, view.MASKS), (len(one._keys), len(one._texts), len(one._masks)))

    def test_two_keys(self):
        want = self.frame.sort_values(["i", "f"], ascending=[False, True], kind="stable").index
        rows, _ = self.view.page(120_000, 120_040, [(1, True), (0, False)])
        self.assertEqual(list(rows), list(want[120_000:120_040]))

    def test_filters_and_search(self):
        frame = self.frame
        cases = (
            ([(0, ">", 0.5)], "", frame.f > 0.5), ([(1, "between", [-2, 2])], "", frame.i.between(-2, 2)),
            ([(3, "contains", "A")], "", frame.w.str.contains("a", case=False, na=False)),
            ([(3, "empty", None)], "", frame.w.isna()), ([(5, "in", ["a", "b"])], "", frame.c.isin(["a", "b"])),
            ([(1, "≠", 3), (4, "=", True)], "", (frame.i != 3) & frame.b), ([(2, "≥", "2021-01-01")], "", frame.t >= "2021-01-01"),
            ([], "ba", frame.w.str.contains("ba", case=False, na=False)), ([(3, "starts", "b")], "", frame.w.str.lower().str.startswith("b", na=False)),
        )
        for filters, search, mask in cases:
            want = frame[mask].sort_values("f", ascending=False, kind="stable").index
            rows, n = self.view.page(10, 60, [(0, True)], filters, search)
            self.assertEqual((n, list(rows)), (int(mask.sum()), list(want[10:60])), (filters, search))


class Decimation(unittest.TestCase):
    def test_extremes_first_and_last_stay(self):
        rng = np.random.default_rng(3)
        x = np.arange(100_000.0)
        for y in (rng.normal(size=100_000), np.cumsum(rng.normal(size=100_000)), np.zeros(100_000)):
            y[54_321] = y.max() + 99  # a spike of one sample
            kept = decimate.m4(np, x, y, 760)
            self.assertLessEqual(len(kept), 4 * 760)
            self.assertTrue((np.diff(kept) > 0).all())
            for i in (0, 99_999, int(y.argmin()), 54_321):
                self.assertIn(y[i], y[kept])
            self.assertEqual((kept[0], kept[-1]), (0, 99_999))

    def test_gaps_stay_gaps(self):
        y = np.sin(np.arange(50_000) / 100)
        y[20_000:20_500] = np.nan
        kept = decimate.m4(np, np.arange(50_000.0), y, 400)
        gap = kept[np.isnan(y[kept])]
        self.assertTrue(len(gap) and gap.min() >= 20_000 and gap.max() < 20_500)

    def test_a_zoom_gives_the_exact_points(self):
        frame = pd.DataFrame({"x": np.arange(100_000), "y": np.random.default_rng(1).normal(size=100_000)})
        source = charts.make(frame, charts.Spec("line"), "x", "y")
        whole = source.node({"w": 760, "dpr": 1})
        self.assertEqual(whole["of"], 100_000)
        part = source.node({"w": 760, "dpr": 1}, [500, 700])
        self.assertNotIn("of", part)
        got = dict(zip(part["x"]["v"], part["s"][0]["v"]))
        for i in (500, 600, 700):
            self.assertAlmostEqual(got[i], frame.y[i], 3)

    def test_a_dense_scatter_becomes_counts(self):
        rng = np.random.default_rng(1)
        frame = pd.DataFrame({"x": rng.normal(size=200_000), "y": rng.normal(size=200_000)})
        node = charts.make(frame, charts.Spec("scatter"), "x", "y").node({"w": 760, "dpr": 1})
        self.assertEqual(sum(node["density"]["c"]), 200_000)


class Charts(unittest.TestCase):
    def make(self, frame, kind="auto", x=None, y=None, color=None, **options):
        return charts.make(frame, charts.Spec(kind, **options), x, y, color).node({"w": 760, "dpr": 1})

    def test_sums_are_those_of_pandas(self):
        frame = pd.DataFrame({"c": list("abab"), "v": [1.5, 2, 3, 4], "g": list("xxyy")})
        node = self.make(frame, "bar", "c", "v")
        self.assertEqual(dict(zip(node["x"]["v"], node["s"][0]["v"])), {"a": 4.5, "b": 6})
        node = self.make(frame, "bar", "c", "v", "g")
        self.assertEqual([s["n"] for s in node["s"]], ["x", "y"])
        self.assertTrue(node["stack"])

    def test_kinds_that_are_chosen(self):
        days = pd.date_range("2024-01-01", periods=5)
        for frame, kind in ((pd.DataFrame({"t": days, "v": range(5)}), "line"), (pd.DataFrame({"c": list("abc"), "v": [1, 2, 3]}), "bar"),
                            (pd.DataFrame({"a": np.random.rand(50), "b": np.random.rand(50)}), "scatter"),
                            (pd.DataFrame({"a": np.random.rand(50)}), "histogram"),
                            (pd.DataFrame(np.random.rand(4, 4)).corr(), "heatmap")):
            self.assertEqual(self.make(frame)["kind"], kind)

    def test_naive_times_are_never_shifted(self):
        node = self.make(pd.DataFrame({"t": pd.date_range("2024-03-30", periods=3), "v": [1, 2, 3]}), "line", "t", "v")
        self.assertEqual((node["x"]["tz"], node["x"]["enc"]["t0"]), (None, 1711756800000))
        aware = pd.date_range("2024-03-30", periods=3, tz="Europe/Berlin")
        node = self.make(pd.DataFrame({"t": aware, "v": [1, 2, 3]}), "line", "t", "v")
        self.assertEqual(node["x"]["tz"], "Europe/Berlin")
        self.assertEqual(node["x"]["enc"]["t0"], int(aware[0].value // 1_000_000))

    def test_mistakes_are_told(self):
        frame = pd.DataFrame({"country": list("ab"), "revenue": [1, -2]})
        for arguments, words in ((("bar", "country", "reveneu"), "Did you mean 'revenue'"), (("bar", "revenue", "country"), "agg=\"count\""),
                                 (("pie", "country", "revenue"), "negative"), (("sunburst",), "Kinds:")):
            with self.assertRaisesRegex(Exception, words):
                self.make(frame, *arguments)

    def test_nothing_is_left_to_draw(self):
        empty = pd.DataFrame({"c": pd.Series([], dtype=object), "v": pd.Series([], dtype=float)})
        for kind in ("line", "bar", "scatter", "histogram", "box", "pie"):
            node = self.make(empty, kind, "c" if kind in ("bar", "pie", "box") else "v", "v")
            wire.encode(wire.clean(node))
        node = self.make(pd.DataFrame({"v": [np.nan] * 4}), "line", None, "v")
        self.assertIn("missing", node["note"])


class Export(unittest.TestCase):
    def test_csv_and_xlsx(self):
        frame = pd.DataFrame({"a": [3, 1, 2], "w": ["x<y", None, "é\x01"], "t": pd.to_datetime(["2024-01-01", None, "2024-02-01 12:00"])})
        table = tables.Table(frame)
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "t.csv")
            table.write(path, "csv", {"sort": [["a", "desc"]], "filter": [{"col": "a", "op": ">", "v": 1}]})
            self.assertEqual(pd.read_csv(path).a.tolist(), [3, 2])
            path = os.path.join(place, "t.xlsx")
            table.write(path, "xlsx")
            with zipfile.ZipFile(path) as book:
                sheet = book.read("xl/worksheets/sheet1.xml").decode()
            import xml.etree.ElementTree as tree

            self.assertEqual(len(tree.fromstring(sheet)[0]), 4)
            self.assertIn("x&lt;y", sheet)
            self.assertIn("<v>45292.0</v>", sheet)


class Pieces(unittest.TestCase):
    def test_patches_make_the_new_tree(self):
        choose = random.Random(4)

        def tree(depth=0):
            out = []
            for i in range(choose.randint(0, 4)):
                key = f"{depth}.{choose.randint(0, 9)}"
                if any(n["id"] == key for n in out):
                    continue
                if depth < 2 and choose.random() < 0.4:
                    out.append({"id": key, "t": "box", "of": [n for n in tree(depth + 1)]})
                else:
                    out.append({"id": key, "t": "md", "text": str(choose.randint(0, 3))})
            return out

        def unique(nodes, seen):
            out = []
            for n in nodes:
                if n["id"] in seen:
                    continue
                seen.add(n["id"])
                if "of" in n:
                    n["of"] = unique(n["of"], seen)
                out.append(n)
            return out

        for _ in range(300):
            old, new = unique(tree(), set()), unique(tree(), set())
            kinds = {n["id"]: n["t"] for n in wire.by_id(old).values()}
            if any(kinds.get(k, n["t"]) != n["t"] for k, n in wire.by_id(new).items()):
                continue
            patch, _ = wire.difference(wire.flatten(old), new)
            self.assertEqual(wire.apply(json.loads(json.dumps(old)), json.loads(json.dumps(patch))), new)

    def test_the_last_of_several_patches_from_one_tree_fits_all_between(self):
        def md(key, text):
            return {"id": key, "t": "md", "text": text}

        def box(key, *of):
            return {"id": key, "t": "box", "of": list(of)}

        old = [md("a", "1"), md("b", "1"), box("c", md("d", "1"))]
        steps = ([box("g", md("a", "2"), box("c", md("d", "2"))), md("b", "1")], old,
                 [box("c"), md("d", "3")], [box("g", box("h", md("a", "1"))), md("b", "2")], old)
        named, trees = wire.Named(), [old]
        for after in steps:
            patch, _ = wire.difference(wire.flatten(old), after, named)
            named.add(patch)
            for before in trees:
                self.assertEqual(wire.apply(json.loads(json.dumps(before)), json.loads(json.dumps(patch))), after)
            trees.append(after)

    def test_types(self):
        self.assertEqual(chart_data.kind_of(pd.Series([1, 2])), "num")
        self.assertEqual(chart_data.kind_of(pd.Series(["1"])), "cat")


if __name__ == "__main__":
    tap.main()
