"""What people write, and what must be shown for it: the cases of the specification that need no
browser. Prints TAP."""

import json
import unittest
from unittest import mock

import oracle
import tap
from scb_dash import engine, service, wire

ST = "import pandas as pd, numpy as np\nimport streamlit as st\n"


def kinds(board):
    return [n["t"] for n in board.nodes_all()]


class Board(oracle.Board):
    def nodes_all(self):
        return list(oracle._walk(self.tree["tree"]))

    def ran_lines(self, patch):
        return [int(line.split(":")[0][5:]) for line in patch["ran"]]

    @property
    def outline(self):
        return self._last("outline+json")

    @property
    def text(self):
        return [data for mimes in self.kernel.emitted for mime, data in mimes if mime.endswith("text")][-1].decode()

    def page(self, kind, **event):
        self.request(op="event", id=oracle.KEY, event={"type": kind, **event})
        return self._last("page+json")


class PlainValues(unittest.TestCase):
    def test_a_frame_as_last_line(self):
        b = Board(ST + "df = pd.DataFrame({'c': list('abc'), 'v': [1, 2, None], 'w': [1, 2, 3]})\ndf")
        self.assertEqual(b.tree["title"], "df")
        self.assertEqual([b.metric(n) for n in ("Rows", "Columns", "Missing")], [3, 3, 1])
        self.assertEqual((len(b.nodes("chart")), len(b.nodes("table"))), (1, 1))

    def test_a_last_line_with_a_semicolon(self):
        for end in (";", " ;  # not this", ";\n"):
            self.assertEqual([n["t"] for n in Board("import scb\nscb.write('x')\n{'a': 1}" + end).nodes_all()][-1], "md", end)
        self.assertTrue(Board("import scb\nscb.write('x')\n{'a;': 1}  # ;").nodes("metric"))

    def test_a_series_of_numbers(self):
        b = Board(ST + "df = pd.DataFrame({'price': [1.0, 2.0, 3.0, None]})\ndf['price']")
        self.assertEqual(b.nodes("chart")[0]["kind"], "histogram")
        self.assertEqual([b.metric(n) for n in ("Min", "Median", "Mean", "Max", "Missing")], [1, 2, 2, 3, 1])

    def test_a_grouped_sum(self):
        b = Board(ST + "df = pd.DataFrame({'c': list('bab'), 'v': [1, 2, 3]})\ndf.groupby('c')['v'].sum()")
        chart = b.nodes("chart")[0]
        self.assertEqual((chart["kind"], chart["x"]["v"], chart["s"][0]["v"]), ("bar", ["a", "b"], [2, 4]))
        self.assertTrue(b.nodes("table"))

    def test_a_dict_of_numbers_and_one_of_frames(self):
        b = Board("{'revenue': 1.2e6, 'orders': 381}")
        self.assertEqual((b.metric("revenue"), b.metric("orders")), (1.2e6, 381))
        b = Board(ST + "{'A': pd.DataFrame({'a': [1]}), 'B': pd.DataFrame({'b': [2]})}")
        self.assertEqual(b.nodes("tabs")[0]["names"], ["A", "B"])
        self.assertEqual(len(b.nodes("table")), 2)

    def test_a_number_and_nothing(self):
        self.assertEqual(Board("42").nodes("metric")[0]["value"], 42)
        b = Board(ST + "df = pd.DataFrame({'a': [1, 2]})\nx = None\nNone")
        self.assertTrue(b.nodes("table"))
        self.assertTrue(any("Nothing was shown" in n for n in b.tree["notes"]))
        b = Board("def f(): pass\nNone")
        self.assertEqual(b.tree["status"], "error")
        self.assertIn("Nothing to show", b.nodes("error")[0]["text"])
        self.assertEqual(b.outline["shown"], [])

    def test_plots_that_nobody_shows(self):
        b = Board("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('T')\n")
        self.assertEqual([(n["alt"], n["mime"]) for n in b.nodes("image")], [("T", "image/svg+xml")])
        b = Board("import matplotlib.pyplot as plt\nfig, axes = plt.subplots(2, 2)\naxes[0, 0].plot([1])\n")
        self.assertEqual(len(b.nodes("image")), 1)

    def test_display_is_write(self):
        b = Board(ST + "display(pd.DataFrame({'a': [1, 2]}), 5)\nx = 1")
        self.assertEqual(["table", "md"], kinds(b)[-2:])
        self.assertEqual([], b.tree["notes"])

    def test_other_values(self):
        for code, t in (("'# text'", "md"), ("[1, 2, 3]", "chart"), ("[{'a': 1}]", "table"), ("{'a': {'b': [1]}}", "json"),
                        ("import numpy as np\nnp.eye(3)", "chart"), ("import datetime\ndatetime.date(2024, 1, 1)", "metric"),
                        ("import pandas as pd\npd.DataFrame({'a': [1, 1]}).groupby('a')", "table"), ("object()", "code")):
            with self.subTest(code=code):
                b = Board(code)
                self.assertEqual(b.tree["status"], "ok", b.nodes("error"))
                self.assertIn(t, kinds(b))


class Figure:
    """What to_plotly_json() of a figure gives; Plotly itself is not in the sandbox."""

    def __init__(self, **parts):
        self._parts = parts

    def to_plotly_json(self):
        return self._parts


class Translated(unittest.TestCase):
    def board(self, code, **names):
        b = oracle.InProcess()
        b.namespace.update(names)
        original = oracle.InProcess
        oracle.InProcess = lambda: b
        try:
            return Board(code)
        finally:
            oracle.InProcess = original

    def test_plotly(self):
        fig = Figure(data=[{"type": "bar", "x": ["a", "b"], "y": [3, 4], "name": "n"}], layout={"title": {"text": "T"}})
        b = self.board("import streamlit as st\nst.plotly_chart(fig)", fig=fig)
        chart = b.nodes("chart")[0]
        self.assertEqual((chart["kind"], chart["title"], chart["s"][0]["v"]), ("bar", "T", [3, 4]))
        fig = Figure(data=[{"type": "sankey", "node": {"label": ["x"]}, "link": {"value": [1]}}], layout={})
        b = self.board("import streamlit as st\nst.plotly_chart(fig)", fig=fig)
        self.assertTrue(b.nodes("table") and any("can't be drawn" in n for n in b.tree["notes"]))

    def test_vega_lite(self):
        code = ST + """
df = pd.DataFrame({"d": pd.date_range("2024-01-15", periods=4, freq="15D"), "v": [1, 2, 3, 4], "c": list("abab")})
st.vega_lite_chart(df, {"mark": "bar", "encoding": {"x": {"field": "c", "type": "nominal"}, "y": {"field": "v", "aggregate": "mean"}}})
st.vega_lite_chart(df, {"mark": "line", "encoding": {"x": {"field": "d", "timeUnit": "yearmonth"}, "y": {"field": "v", "aggregate": "sum"}}})
st.vega_lite_chart(df, {"mark": "point", "encoding": {"x": {"field": "v"}, "y": {"field": "v"}, "column": {"field": "c"}}})
"""
        b = Board(code)
        self.assertEqual(b.tree["status"], "ok", b.nodes("error"))
        bar, line = b.nodes("chart")[:2]
        self.assertEqual(bar["s"][0]["v"], [2, 3])
        self.assertEqual(line["s"][0]["v"], [3, 7])
        self.assertEqual(len(b.nodes("chart")), 4)


class Replay(unittest.TestCase):
    def test_the_loader_runs_once(self):
        b = Board("""
import streamlit as st
import pandas as pd
calls = []
@st.cache_data
def load():
    calls.append(1)
    return pd.DataFrame({"v": range(5)})
def main():
    st.title("App")
    df = load()
    with st.sidebar:
        k = st.slider("k", 0, 5, 1)
    a, b = st.columns(2)
    a.metric("Sum", int(df[df.v >= k].v.sum()))
    one, two = st.tabs(["x", "y"])
    with one:
        st.dataframe(df)
if __name__ == "__main__":
    main()
""")
        self.assertEqual((b.tree["status"], b.tree["title"]), ("ok", "App"), b.nodes("error"))
        patch = b.set(k=3)
        self.assertEqual(b.metric("Sum"), 7)
        self.assertEqual(b.kernel.namespace["calls"], [1])
        self.assertFalse(any("load()" in line for line in patch["ran"]))

    def test_only_the_chain_runs_again(self):
        b = Board(ST + "df = pd.DataFrame({'x': range(10)})\nk = st.slider('k', 0, 9, 2)\nother = df.x.sum()\n"
                  "df = df[df.x > k]\nst.metric('n', len(df))\nst.metric('o', int(other))")
        patch = b.set(k=5)
        self.assertEqual(b.ran_lines(patch), [4, 6, 7])
        self.assertEqual((b.metric("n"), b.metric("o")), (4, 45))

    def test_in_place_changes_do_not_add_up(self):
        code = ST + ("df = pd.DataFrame({'x': range(4), 'y': range(4)})\nk = st.slider('k', 0, 9, 1)\n"
                     "df['z'] = df.y * k\ndf['x'] += k\nst.metric('s', int(df.x.sum() + df.z.sum()))")
        b = Board(code)
        for k in (3, 4, 5, 2, 9):
            b.set(k=k)
        self.assertEqual(b.metric("s"), 6 + 4 * 9 + 6 * 9)

    def test_a_frame_that_is_changed_in_place_is_not_loaded_again(self):
        for change in ("df['b'] = df.a * k", "df['a'] += k", "df.loc[0, 'a'] = k", "df['a'] += k\ndf['c'] = df.a",
                       "df.drop(columns=['a'], inplace=True)\ndf['b'] = k"):
            b = Board(ST + "k = st.slider('k', 0, 9, 1)\ndf = pd.DataFrame({'a': range(5), 't': list('abcde')})\n" + change +
                      "\nst.metric('m', str(df.to_dict('list')))")
            for k in (4, 7, 7, 2):
                self.assertNotIn(4, b.ran_lines(b.set(k=k)), change)
                oracle.check(b, oracle.base_namespace())

    def test_two_controls_of_one_label(self):
        b = Board("import streamlit as st\na = st.slider('v', 0, 9, 1)\nb = st.slider('v', 0, 9, 2)\nst.metric('m', 10 * a + b)")
        ids = [n["id"] for n in b.nodes("slider")]
        self.assertEqual(len(set(ids)), 2)
        b.set(**{ids[1]: 7})
        self.assertEqual(b.metric("m"), 17)

    def test_options_that_go_away(self):
        b = Board("import streamlit as st\nn = st.slider('n', 1, 5, 5)\npick = st.selectbox('p', list('abcde')[:n])\nst.metric('m', pick)")
        b.set(p="e")
        self.assertEqual(b.metric("m"), "e")
        b.set(n=2)
        self.assertEqual(b.metric("m"), "a")
        self.assertTrue(any("no longer among" in note for note in b.tree["notes"]))

    def test_very_many_options_are_searched(self):
        b = Board(ST + "many = [f'Item {i}' for i in range(5000)]\nst.metric('one', st.selectbox('One', many))\n"
                  "st.metric('some', len(st.multiselect('Some', many)))")
        node = b.nodes("select")[0]
        self.assertEqual((len(node["options"]), node["total"]), (1000, 5000))
        found = b.page("options", id=node["id"], search="item 4999")["set"][node["id"]]
        self.assertEqual((found["options"], found["found"]), (["Item 4999"], 1))
        found = b.page("options", id=b.nodes("multiselect")[0]["id"], search="item 3")["set"].popitem()[1]
        self.assertEqual((len(found["options"]), found["found"]), (1000, 1111))
        b.set(One="Item 4999", Some=["Item 4000", "Item 2"])
        self.assertEqual((b.metric("one"), b.metric("some")), ("Item 4999", 2))

    def test_a_value_outside_its_range(self):
        b = Board("import streamlit as st\ntop = st.slider('top', 1, 9, 9)\ny = st.slider('y', 0, top, 8)\nst.metric('m', y)")
        b.set(top=3)
        self.assertEqual(b.metric("m"), 3)

    def test_a_button_counts_and_others_do_not(self):
        b = Board("import streamlit as st\nif 'n' not in st.session_state:\n    st.session_state.n = 0\nk = st.slider('k', 0, 9, 1)\n"
                  "if st.button('more'):\n    st.session_state.n += 1\nst.metric('n', st.session_state.n)\nst.metric('k', k)")
        for wanted in (1, 2, 3):
            b.event("click", id="more")
            self.assertEqual(b.metric("n"), wanted)
            b.set(k=wanted + 3)
            self.assertEqual((b.metric("n"), b.metric("k")), (wanted, wanted + 3))

    def test_callbacks_and_keys(self):
        b = Board("import streamlit as st\ndef reset():\n    st.session_state.year = 2000\ny = st.slider('Year', 1990, 2030, 2010, key='year')\n"
                  "st.button('reset', on_click=reset)\nst.metric('y', y)\nst.metric('s', st.session_state.year)")
        b.set(Year=2020)
        self.assertEqual((b.metric("y"), b.metric("s")), (2020, 2020))
        b.event("click", id="reset")
        self.assertEqual((b.metric("y"), b.metric("s")), (2000, 2000))

    def test_a_form_waits(self):
        b = Board("import streamlit as st\nwith st.form('f'):\n    a = st.slider('a', 0, 9, 1)\n    go = st.form_submit_button('Go')\n"
                  "st.metric('a', a)\nst.metric('go', str(go))")
        self.assertEqual(b.nodes("slider")[0]["form"], "f")
        b.set(a=5)
        self.assertEqual(b.metric("a"), 1)
        b.event("submit", form="f", values={"a": 7})
        self.assertEqual((b.metric("a"), b.metric("go")), (7, "True"))

    def test_stop(self):
        b = Board("import streamlit as st\nok = st.checkbox('ok')\nif not ok:\n    st.info('tick it')\n    st.stop()\nst.metric('m', 1)")
        self.assertFalse(b.nodes("metric"))
        b.set(ok=True)
        self.assertEqual(b.metric("m"), 1)
        b.set(ok=False)
        self.assertFalse(b.nodes("metric"))

    def test_rerun(self):
        b = Board("import streamlit as st\nif st.button('go'):\n    st.session_state['x'] = 5\n    st.rerun()\nst.metric('x', st.session_state.get('x', 0))")
        b.event("click", id="go")
        self.assertEqual(b.metric("x"), 5)

    def test_names_of_the_kernel(self):
        b = Board("import streamlit as st\nk = st.slider('k', 0, 9, 1)\nst.metric('m', base + k)\nst.metric('b', base)", prepare="base = 10")
        self.assertEqual(b.metric("m"), 11)
        b.kernel.namespace["base"] = 20
        b.set(k=2)
        self.assertEqual((b.metric("m"), b.metric("b")), (22, 20))

    def test_a_frame_of_the_kernel_changed_in_place(self):
        b = Board(ST + "k = st.slider('k', 0, 9, 1)\ndf['a'] += k\nst.metric('m', int(df.a.sum()))",
                  prepare="import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})")
        for k in (2, 3, 4):
            b.set(k=k)
            self.assertEqual(b.metric("m"), 3 + 2 * k)


class WholeRuns(unittest.TestCase):
    """Where nothing else helps all runs anew, within an event."""

    CODE = ("import streamlit as st\nk = st.slider('k', 0, 9, 1)\nst.metric('a', k)\nst.metric('b', 2)\n"
            "st.metric('c', 1 // (k - 5))\nst.metric('d', 4)")

    def setUp(self):
        patches = (mock.patch.object(engine, "REPLANS_MAX", -1), mock.patch.object(service, "STEP_AFTER_S", 0))
        self.b = Board(self.CODE)
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)

    def labels(self, tree):
        return [n["label"] for n in oracle._walk(tree) if n["t"] == "metric"]

    def test_the_page_keeps_what_it_showed_until_that_is_there_anew(self):
        before = json.loads(json.dumps(self.b.tree["tree"]))
        self.b.set(k=2)
        self.assertEqual(1, self.b.engine.fresh_runs)
        patches = self.b._all("patch+json")
        self.assertLess(4, len(patches))
        for patch in patches:
            tree = wire.apply(json.loads(json.dumps(before)), patch)
            self.assertEqual(["a", "b", "c", "d"], self.labels(tree))
        self.assertEqual((2, {}), (self.b.metric("a"), self.b.engine.former))

    def test_what_was_not_reached_stays_as_stale(self):
        self.b.set(k=5)
        self.assertEqual(("error", 5), (self.b.tree["status"], self.b.metric("a")))
        self.assertEqual(["d"], [n["label"] for n in self.b.nodes("metric") if n.get("stale")])
        self.b.set(k=6)
        self.assertEqual(("ok", ["a", "b", "c", "d"]), (self.b.tree["status"], self.labels(self.b.tree["tree"])))


class Mistakes(unittest.TestCase):
    def test_an_error_for_one_value_only(self):
        b = Board(ST + "df = pd.DataFrame({'revenue': [1]})\nname = st.selectbox('col', ['revenue', 'reveneu'])\nst.metric('first', 1)\n"
                  "st.metric('v', int(df[name].sum()))\nst.metric('last', 2)")
        b.set(col="reveneu")
        card = b.nodes("error")[0]
        self.assertEqual((b.tree["status"], card["line"]), ("error", 6))
        self.assertIn("Did you mean 'revenue'", card["text"])
        self.assertEqual((b.metric("first"), b.metric("last")), (1, 2))
        self.assertTrue(b.text.startswith("Line 6 failed: KeyError"))
        b.set(col="revenue")
        self.assertEqual((b.tree["status"], b.nodes("error")), ("ok", []))
        self.assertFalse([n for n in b.nodes_all() if n.get("stale")])

    def test_the_first_run_fails(self):
        b = Board("import streamlit as st\nst.metric('a', 1)\nst.metric('b', missing)\nst.metric('c', 3)")
        self.assertEqual((b.tree["status"], b.metric("a"), len(b.nodes("metric"))), ("error", 1, 1))
        self.assertIn("Line 3 failed: NameError", b.text)

    def test_syntax(self):
        b = Board("x = (")
        self.assertEqual(b.tree["status"], "error")
        self.assertIn("SyntaxError", b.nodes("error")[0]["text"])

    def test_unknown_keywords_are_left_out_with_a_note(self):
        b = Board(ST + "st.metric('a', 1, formt='percent')\nst.line_chart([1, 2], titel='x', title='T')\n"
                  "st.sidebar.slider('k', 0, 5, 3, stepp=2)\nst.divider(colour=3)")
        self.assertEqual(["metric has no keyword 'formt': it was left out. Did you mean 'format'?",
                          "line_chart has no keyword 'titel': it was left out. Did you mean 'title'?",
                          "slider has no keyword 'stepp': it was left out. Did you mean 'step'?",
                          "divider has no keyword 'colour': it was left out."], b.tree["notes"])

    def test_streamlits_own_keywords_are_taken(self):
        b = Board(ST + "st.set_page_config(page_title='x', layout='wide')\na, b = st.columns(2, gap='small', vertical_alignment='top')\n"
                  "a.dataframe(pd.DataFrame({'a': [1]}), use_container_width=True, hide_index=True, on_select='rerun')\n"
                  "@st.cache_data(ttl=3600, show_spinner=False)\ndef f():\n    return 1\nf()\n"
                  "with st.status('w', expanded=True) as s:\n    s.update(label='d', state='complete')\n"
                  "st.button('b', type='primary', on_click=print, args=(1,), use_container_width=True)\n"
                  "st.text_input('t', placeholder='p', max_chars=3, label_visibility='collapsed')\n"
                  "st.bar_chart([1], use_container_width=True, horizontal=True)\nst.cache_data.clear()\nf.clear()\nst.metric('m', f())")
        self.assertEqual(("ok", [], []), (b.tree["status"], b.nodes("error"), b.tree["notes"]))

    def test_a_progress_is_one(self):
        b = Board(ST + "bar = st.progress(0, 'load')\nfor i in range(3):\n    bar.progress((i + 1) / 4, text='load')\nst.progress(50)")
        self.assertEqual(["load · 75 %", "50 %"], [n["text"] for n in b.nodes("note")])

    def test_unknown_names_teach(self):
        self.assertIn("controls, not a chat", Board("import streamlit as st\nst.chat_input('x')").nodes("error")[0]["text"])
        self.assertIn("multiselect", Board("import streamlit as st\nst.multiselct('x')").nodes("error")[0]["text"])

    def test_markup_stays_text(self):
        evil = "<img src=x onerror=alert(1)>"
        b = Board(ST + f"e = {evil!r}\nst.title(e)\nst.markdown(e)\nst.markdown('<b>x</b>', unsafe_allow_html=True)\n"
                  "st.selectbox(e, [e])\nst.table(pd.DataFrame({e: [e]}))\nst.bar_chart(pd.DataFrame({'c': [e], 'v': [1]}), x='c', y='v')\nprint(e)\nraise ValueError(e)")
        self.assertEqual(b.tree["title"], evil)
        self.assertEqual([n["text"] for n in b.nodes("md")], [evil, "x"])


class Edits(unittest.TestCase):
    def test_editing_a_chart_does_not_load_again(self):
        head = ST + "df = pd.DataFrame({'a': range(100), 'r': np.random.rand(100)})\nk = st.slider('k', 0, 9, 2)\n"
        b = Board(head + "st.metric('m', float(df.r.sum()))\nst.metric('n', int((df.a > k).sum()))")
        first = b.metric("m")
        b.set(k=5)
        before = b.engine.runs
        b.edit(head + "st.metric('m', float(df.r.sum()))\nst.metric('n', int((df.a < k).sum()))")
        self.assertEqual((b.metric("m"), b.metric("n")), (first, 5))
        self.assertEqual(b.engine.runs - before, 1)
        oracle.check(b, oracle.base_namespace())

    def test_an_edited_decorator_is_an_edit(self):
        code = ("import streamlit as st\ndef times(n):\n    return lambda f: lambda: n * f()\n"
                "@times(2)\ndef one():\n    return 1\nst.metric('m', one())")
        b = oracle.Board(code)
        b.edit(code.replace("@times(2)", "@times(3)"))
        self.assertEqual(b.metric("m"), 3)

    def test_edits_equal_fresh_runs(self):
        lines = ["import pandas as pd", "import streamlit as st", "k = st.slider('k', 0, 9, 2)", "rows = [1]", "rows.append(k)",
                 "df = pd.DataFrame({'a': [1, 2]})", "df['b'] = df.a * k", "df['a'] += 1", "x = len(rows)", "x += k",
                 "st.metric('x', x)", "st.metric('r', str(rows))", "st.metric('d', str(df.to_dict('list')))"]
        b = Board("\n".join(lines))
        for change in ((4, "rows.append(k + 1)"), (7, None), (9, "x += 2"), (5, "df = pd.DataFrame({'a': [5]})"), (3, "rows = []")):
            at, text = change
            lines[at] = text if text is not None else "pass"
            b.edit("\n".join(lines))
            self.assertEqual(b.tree["status"], "ok", b.nodes("error"))
            oracle.check(b, oracle.base_namespace())
            b.set(k=at)
            oracle.check(b, oracle.base_namespace())


class Wire(unittest.TestCase):
    def test_tables_go_on_showing_what_was_shown(self):
        b = Board(ST + "df = pd.DataFrame({'a': range(50)})\nst.table(df)\ndf['a'] = 0\ndf.loc[0, 'a'] = 9")
        node = b.nodes("table")[0]
        page = b.page("table", id=node["id"], at=30, n=5)["set"][node["id"]]
        self.assertEqual(page["page"], {"at": 30, "v": [[30, 31, 32, 33, 34]]})

    def test_pages_zoom_export(self):
        b = Board(ST + "df = pd.DataFrame({'x': range(9000), 'y': np.sin(np.arange(9000))})\nst.line_chart(df, x='x', y='y')\nst.table(df)")
        chart, table = b.nodes("chart")[0], b.nodes("table")[0]
        self.assertEqual(chart["of"], 9000)
        zoomed = b.page("zoom", id=chart["id"], x=[100, 200])["set"][chart["id"]]
        self.assertNotIn("of", zoomed)
        got = b.page("table", id=table["id"], sort=[["x", "desc"]], filter=[{"col": "x", "op": "<", "v": 100}], n=3)
        node = got["set"][table["id"]]
        self.assertEqual((node["rows"], node["page"]["v"][0]), (100, [99, 98, 97]))

    def test_caps(self):
        b = Board(ST + "for i in range(300):\n    st.text('x' * 3000)\n")
        self.assertLessEqual(len(json.dumps(b.tree)), 260_000)
        self.assertTrue(b.tree["notes"])
        self.assertLessEqual(len(json.dumps(b.outline)), 4500)
        self.assertLess(len(b.text), 6100)

    def test_a_tree_that_was_too_large_is_whole_again(self):
        b = Board(ST + "big = st.checkbox('big')\nn = 70_000 if big else 10\n"
                  "t = pd.date_range('2024', periods=30_000, freq='h')\n"
                  "for i in range(6):\n"
                  "    st.line_chart(pd.DataFrame({'t': t, 'v': np.random.default_rng(i).random(30_000)}), x='t', y='v')\n"
                  "for i in range(n // 4_000 + 1):\n    st.text('x' * min(n, 19_000))")
        small = json.dumps(b.tree["tree"])
        self.assertEqual([], b.tree["notes"])
        b.set(big=True)
        self.assertLessEqual(len(json.dumps(b.tree["tree"], ensure_ascii=False, separators=(",", ":"))), 230_000)
        self.assertIn("larger than 230 KB", " ".join(b.tree["notes"]))
        self.assertIn("too large to be sent", json.dumps(b.tree["tree"]))
        b.set(big=False)
        self.assertEqual((small, []), (json.dumps(b.tree["tree"]), b.tree["notes"]))
        oracle.check(b, oracle.base_namespace())

    def test_rows_for_who_has_no_page(self):
        b = Board("import pandas as pd, streamlit as st")
        frame = ("pd.DataFrame({'g': pd.Categorical(['ä', None, 'b']), 't': pd.to_datetime(['2024-01-31', '2024-02-01 "
                 "10:30', None]), 'n': [1, 2.5, None], 's': ['a\\nb', '|', 'x' * 99]})")
        b.request(op="edit", id=oracle.KEY, plain=True, code=f"import pandas as pd, streamlit as st\nst.table({frame})")
        self.assertIn("g | t | n | s\nä | 2024-01-31 | 1.0 | a b\n– | 2024-02-01 10:30:00 | 2.5 | |\nb | – | – | xxx", b.text)
        b.request(op="edit", id=oracle.KEY, plain=True, code="import pandas as pd, streamlit as st\n"
                  "for i in range(9):\n    st.table(pd.DataFrame({'ж' * 60: ['ж' * 500] * 30}))")
        self.assertLess(len(b.text.encode()), 8001)

    def test_text_is_short(self):
        b = Board(ST + "st.title('Orders')\nk = st.multiselect('Region', list('abcdef'), list('abcdef'))\nst.metric('Revenue', 39_930_000, 0.157)\n"
                  "st.line_chart(pd.DataFrame({'t': pd.date_range('2024', periods=100), 'v': range(100)}), x='t', y='v')\nprint('loaded')")
        self.assertIn("Region=all 6", b.text)
        self.assertIn("Revenue 39.93M", b.text)
        self.assertIn("Printed (1 line): loaded", b.text)
        self.assertLess(len(b.text), 1000)


if __name__ == "__main__":
    tap.main()
