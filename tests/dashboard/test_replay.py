"""Versioned replay against its oracle: kinds of script that people write, random programs, and engines
with a rule turned off, which must be caught. Prints TAP."""

import os
import random
import unittest
import unittest.mock

import fuzz
import oracle
import tap
from scb_dash import copies
from scb_dash.plan import Switches

HEAD = "import pandas as pd, numpy as np\nimport streamlit as st\nk = st.slider('k', 0, 9, 3)\nj = st.slider('j', 0, 9, 4)\n"
EVENTS = ({"k": 5}, {"j": 2}, {"k": 0, "j": 9}, {"k": 5}, {"k": 7}, {"j": 1})

SCRIPTS = {
    "load, filter, rebind": """
df = pd.DataFrame({"a": range(10), "g": list("ababababab")})
df = df[df.a >= k]
df = df.groupby("g").sum().reset_index()
df = df.sort_values("a", ascending=j % 2 == 0)
st.metric("n", len(df)); st.table(df)
""",
    "columns in place": """
df = pd.DataFrame({"y": range(5), "x": range(5)})
df["z"] = df.y * k
df["x"] += k
df.loc[df.x > j, "y"] = -1
st.metric("s", int(df.z.sum())); st.metric("x", int(df.x.sum())); st.metric("y", int(df.y.sum()))
""",
    "main and a cache": """
@st.cache_data
def load(n):
    return pd.DataFrame({"v": range(n)})
def main():
    data = load(20)
    top = data.tail(k + 1)
    st.metric("top", int(top.v.sum()))
    st.metric("all", int(data.v.sum()))
main()
""",
    "columns and tabs": """
a, b = st.columns(2)
with a:
    st.metric("one", k)
    with st.expander("more"):
        st.metric("two", k * j)
with b:
    st.metric("three", j)
t1, t2 = st.tabs(["x", "y"])
with t1:
    st.line_chart(pd.DataFrame({"v": [k, j, k]}))
t2.metric("four", k + j)
""",
    "pyplot": """
import matplotlib.pyplot as plt
fig, ax = plt.subplots()
ax.plot([1, 2, k])
ax.set_title(f"j is {j}")
st.pyplot(fig)
plt.figure()
plt.plot([j, j])
plt.title("second")
st.pyplot()
""",
    "pyplot left open": """
import matplotlib.pyplot as plt
plt.plot([1, 2, k])
plt.title("t")
""",
    "functions over globals": """
rate = 2
def price(v):
    return v * rate + k
st.metric("a", price(1))
rate = j
st.metric("b", price(1))
""",
    "a model": """
class Model:
    def fit(self, x, y):
        self.w = float((x * y).sum())
        return self
    def predict(self, x):
        return x * self.w
x = np.arange(5); y = x * 2
model = Model()
model.fit(x, y)
p = model.predict(x)
st.metric("over", int((p > k * 10).sum()))
model.fit(x, y + j)
st.metric("w", model.w)
""",
    "lists in loops": """
rows = []
for i in range(k):
    rows.append({"i": i, "v": i * j})
for r in rows:
    r["w"] = r["v"] + 1
st.metric("n", len(rows)); st.metric("w", sum(r["w"] for r in rows))
""",
    "queries": """
df = pd.DataFrame({"a": range(10)})
limit = k + 1
small = df.query("a < @limit")
name = "small"
st.metric("n", len(small)); st.metric("t", f"{k}/{j}")
""",
    "random numbers": """
import random
np.random.seed(j)
a = np.random.rand()
random.seed(1)
b = random.random() + k
rng = np.random.default_rng(7)
c = rng.integers(100)
d = rng.integers(100) + k
st.metric("a", str(a)); st.metric("b", str(b)); st.metric("c", int(c)); st.metric("d", int(d)); st.metric("e", int(rng.integers(100)))
""",
    "branches": """
if k > 4:
    label = "high"
    extra = j
else:
    label = "low"
try:
    value = 10 // (j - 1)
except ZeroDivisionError:
    value = None
st.metric("label", label); st.metric("value", str(value)); st.metric("e", globals().get("extra", "none"))
""",
    "files": """
import os, tempfile
path = os.path.join(tempfile.gettempdir(), f"scb-replay-{os.getuid()}.csv")
pd.DataFrame({"a": range(k + 1)}).to_csv(path, index=False)
back = pd.read_csv(path)
st.metric("n", len(back) + j)
""",
    "aliases": """
df = pd.DataFrame({"a": [1, 2, 3]})
other = df
col = df["a"]
other["b"] = k
view = df[:2]
st.metric("b", int(df.b.sum())); st.metric("v", len(view)); st.metric("c", int(col.sum()))
box = {"df": df}
box["df"]["c"] = j
st.metric("cc", int(df.c.sum()))
""",
    "sqlite": """
import sqlite3
con = sqlite3.connect(":memory:")
con.execute("create table t (v int)")
con.executemany("insert into t values (?)", [(i,) for i in range(k)])
n = con.execute("select count(*) from t where v >= ?", (j,)).fetchone()[0]
st.metric("n", n)
""",
    "iterators and closures": """
it = iter(range(100))
first = next(it)
skip = [next(it) for _ in range(k)]
last = next(it)
def counter():
    n = 0
    def more(v):
        nonlocal n
        n += v
        return n
    return more
c = counter()
c(1)
got = c(j)
gen = (i * k for i in range(3))
st.metric("x", first + last); st.metric("c", got); st.metric("c2", c(1)); st.metric("g", sum(gen))
""",
    "global and classes": """
total = 0
def bump(v):
    global total
    total += v
class Bag:
    all = []
    def __init__(self, v):
        Bag.all.append(v)
bump(k)
bump(1)
one, two = Bag(k), Bag(j)
st.metric("t", total); st.metric("b", str(Bag.all)); st.metric("b2", len(two.all))
""",
    "exec and eval": """
exec("made = k * 2")
value = eval("made + j")
st.metric("v", value)
""",
    "library functions that change arguments": """
import heapq, bisect, random
heap = [5, 3, 8]
heapq.heapify(heap)
heapq.heappush(heap, k)
arr = np.arange(5)
np.put(arr, [0], [j])
np.copyto(arr[1:], k)
order = [1, 2, 3]
bisect.insort(order, k)
st.metric("h", str(heap)); st.metric("a", str(arr.tolist())); st.metric("o", str(order))
""",
    "a mutator with equal inputs": """
flag = k > 4
items = [1]
items.append(flag)
if j > 3:
    items.append(2)
st.metric("n", str(items))
def add(target, v):
    target.setdefault("v", []).append(v)
box = {}
add(box, flag)
add(box, j)
st.metric("b", str(box))
""",
    "a library that nobody knows": """
import strangelib
df = pd.DataFrame({"a": [1, 2, 3]})
strangelib.touch(df, k)
strangelib.touch(df, j)
st.metric("a", int(df.a.sum()))
""",
    "attributes of a module": """
import os, strangelib
setattr(strangelib, "one", k)
strangelib.two = [0]
strangelib.two.append(j)
os.environ.update(SCB_REPLAY=str(k))
st.metric("1", strangelib.one); st.metric("2", str(strangelib.two)); st.metric("e", os.environ["SCB_REPLAY"])
""",
    "settings of a module": """
pd.set_option("display.precision", 2 + k % 3)
text = str(pd.Series([1.23456789]))
st.metric("t", text)
""",
}


NEEDED_AGAIN = """
items = [0]
items.append(1)
st.metric("m", f"{items} {k}")
items.append(2)
st.metric("n", str(items))
"""
REACHED = """
df = pd.DataFrame({"a": [1, 2]})
df["b"] = k
st.metric("m", int(df.b.sum()))
"""
PUT_ELSEWHERE = """
d = {"b": {"x": 0}}
d["b"] = dict(d["b"], y=1)
d["b"]["x"] += k
st.metric("m", str(d["b"]))
"""


class Scripts(unittest.TestCase):
    """The kinds of script of the specification."""


def _script_test(code):
    def test(self):
        board = oracle.Board(HEAD + code)
        self.assertEqual(board.tree["status"], "ok", board.nodes("error"))
        for values in EVENTS:
            board.set(**values)
            self.assertEqual(board.tree["status"], "ok", board.nodes("error"))
            oracle.check(board, oracle.base_namespace())

    return test


for _name, _code in SCRIPTS.items():
    setattr(Scripts, "test_" + _name.replace(" ", "_").replace(",", ""), _script_test(_code))


# Found by random programs: code, events.
FOUND = {
    "a column whose memory is another by now": ("""
import strangelib
n = st.slider('n', 0, 5, 2)
df = pd.DataFrame({'a': [1, 2, 3, 4], 'b': [4.0, 3.0, 2.0, 1.0]})
def scale(frame, v):
    frame['b'] = frame['b'] * v
df2 = df.copy()
strangelib.touch(df, k)
scale(df2, n)
ser = df['a']
ser[0] = j
st.metric('m', str(df2.to_dict('list')))
""", ({"n": 1, "j": 5}, {"k": 0}, {"k": 0, "n": 3})),
    "a column of a frame in a dict": ("""
import strangelib
n = st.slider('n', 0, 5, 2)
box = {'f': pd.DataFrame({'a': [1, 2, 3, 4], 'b': [4.0, 3.0, 2.0, 1.0]})}
text = str(box['f'].a.tolist()) + str(n)
strangelib.touch(box['f'], k)
ser = box['f']['a']
ser[0] = j
st.metric('m', text)
""", ({"n": 1, "j": 5}, {"k": 0}, {"k": 0, "n": 3})),
    "a column of a frame that was sorted in place": ("""
df = pd.DataFrame({'a': [1, 2, 3, 4], 'b': [4.0, 3.0, 2.0, 1.0]})
df.sort_values('b', inplace=True)
ser = df['a']
ser[0] = k
st.metric('m', str(df.to_dict('list')))
""", ({"k": 0}, {"k": 7})),
    "a column of a frame that was added to": ("""
df = pd.DataFrame({'a': [1, 2, 3, 4], 'b': [4.0, 3.0, 2.0, 1.0]})
df['a'] += j
ser = df['a']
ser[0] = k
st.metric('m', str(df.to_dict('list')))
""", ({"k": 0, "j": 1}, {"k": 7})),
    "a copy that a unit took when it ran last, and takes no more": ("""
df = pd.DataFrame({'a': [1, 2, 3, 4], 'b': [4.0, 3.0, 2.0, 1.0]})
df['a'] += k
df.sort_values('b', inplace=True)
ser = df['a']
ser[0] = j
df2 = df
st.metric('m', str(df.to_dict('list')))
""", ({"k": 0}, {"j": 1})),
    "a change that nobody foresaw, before a unit that fails": ("""
import strangelib
n = k - 3
df = pd.DataFrame({'a': [1, 2, 3]})
strangelib.touch(df, n)
ok = 1 // (j - 5) if n else 1
st.metric('m', int(df.a.sum()))
""", ({"k": 5, "j": 5}, {"j": 2})),
}


class Found(unittest.TestCase):
    def test_found_by_random_programs(self):
        for name, (code, events) in FOUND.items():
            with self.subTest(name):
                board = oracle.Board(HEAD + code)
                for values in events:
                    board.set(**values)
                    if board.tree["status"] == "ok":
                        oracle.check(board, oracle.base_namespace())


class Copies(unittest.TestCase):
    CODE = HEAD + """
arr = np.arange(4)
arr = arr + j
arr[0] = k
st.metric('m', str(arr.tolist()))
df = pd.DataFrame({'a': np.arange(1000.)})
df['a'] += k
df['b'] = df.a * j
st.metric('s', float(df.b.sum()))
"""

    def test_a_copy_goes_when_nothing_needs_it_and_its_id_with_it(self):
        """An object that gets the address of one that a copy stood for is another one."""
        choose, values = random.Random(4), {"k": 3, "j": 4}
        board = oracle.Board(self.CODE)
        for _ in range(200):
            moved = {choose.choice("kj"): choose.randint(0, 9)}
            values.update(moved)
            board.set(**moved)
            k, j = values["k"], values["j"]
            self.assertEqual(str([k, 1 + j, 2 + j, 3 + j]), board.metric("m"))
            self.assertEqual(sum((x + k) * j for x in range(1000)), board.metric("s"))
        held = sum(len(held) for held in board.engine.snapshots.values())
        self.assertLess(len(board.engine._copies) + held, 10)


    def test_of_too_many_copies_those_stay_that_save_most(self):
        code = HEAD + """
import time
def make(n, seconds):
    time.sleep(seconds)
    return pd.DataFrame({'a': np.arange(float(n))})
dear = make(1000, 0.05)
cheap = make(1000, 0)
cheap['a'] += k
dear['a'] += k
st.metric('m', float(cheap.a.sum() + dear.a.sum()))
"""
        with unittest.mock.patch.object(copies, "SNAPSHOTS_MAX", 12_000):
            board = oracle.Board(code)
            self.assertEqual(["dear"], [s.name for held in board.engine.snapshots.values() for s in held])
            for k in (5, 2):
                board.set(k=k)
                oracle.check(board, oracle.base_namespace())
                self.assertFalse([line for line in board.board.ran if "dear = make" in line])
            board = oracle.Board("import streamlit as st\nk = st.slider('k', 0, 9, 3)\ndf['a'] += k\nst.metric('m', 1)",
                                 "import pandas as pd\ndf = pd.DataFrame({'a': range(9000)})")
            self.assertIn("too large for a copy", board.tree["notes"][0])


class GivesWay(unittest.TestCase):
    """The newer event may be of the control whose statement the older one did not come through."""

    def test_whole_run(self):
        board = oracle.Board("import streamlit as st\nk = st.slider('k', 0, 9, 3)\nst.metric('m', k)")
        answers = iter([False, True])  # between the import and the slider
        board.kernel.newer_waits = lambda: next(answers, False)
        with unittest.mock.patch.object(type(board.engine), "_replay", lambda engine, init, start, steps: engine._fresh(steps)):
            board.set(k=4)
        self.assertTrue(board.engine.gave_way)
        board.set(k=5)
        self.assertEqual(5, board.metric("m"))
        oracle.check(board, oracle.base_namespace())

    def test_interrupted(self):
        board = oracle.Board("import streamlit as st\nk = st.slider('k', 0, 9, 3)\nfor i in range(2):\n"
                             "    if i and k > 5:\n        slow()\n    j = st.slider(f'j{i}', 0, 9, 1)\nst.metric('m', k + j)",
                             "def slow():\n    pass")

        def slow():
            board.kernel.newer_waits = lambda: True
            raise KeyboardInterrupt

        board.kernel.namespace["slow"].__code__ = (lambda: interrupted()).__code__
        board.kernel.namespace["interrupted"] = slow
        with self.assertRaises(KeyboardInterrupt):
            board.set(k=7)
        self.assertTrue(board.engine.gave_way)
        board.kernel.newer_waits = lambda: False
        board.kernel.namespace["interrupted"] = lambda: None
        board.set(j1=2)
        self.assertEqual(9, board.metric("m"))


class Random(unittest.TestCase):
    def test_programs(self):
        for seed in range(5000, 5000 + int(os.environ.get("SCB_FUZZ_PROGRAMS", "12"))):
            fuzz.one(seed, 3)

    def test_programs_that_fail_and_give_way(self):
        for seed in range(6320, 6320 + int(os.environ.get("SCB_FUZZ_PROGRAMS", "12"))):
            fuzz.one(seed, 6, True)


class Mutants(unittest.TestCase):
    """An engine without one of its rules shows something wrong in these programs."""

    def _caught(self, rule, programs=60):
        setattr(Switches, rule, False)
        try:
            for seed in range(1, programs):
                try:
                    fuzz.one(seed, 3)
                except fuzz.Wrong:
                    return
        finally:
            setattr(Switches, rule, True)
        self.fail(f"nothing noticed that {rule} was off")

    def test_without_the_backward_rule(self):
        self._caught("backward")

    def test_without_rules_of_mutation(self):
        self._caught("mutations")

    def test_without_versions(self):
        self._caught("versions")

    def _shown(self, code, *off):
        """What two moves show with these rules off."""
        for rule in off:
            setattr(Switches, rule, False)
        try:
            board, shown = oracle.Board(HEAD + code), []
            for value in (5, 7):
                board.set(k=value)
                shown.append(str(board.metric("m")))
            self.replans, self.runs = board.engine.replans, board.engine.runs
            return shown
        finally:
            for rule in off:
                setattr(Switches, rule, True)

    def test_without_the_cut_off_of_objects(self):
        self.assertEqual(["10", "14"], self._shown(REACHED))
        self.assertNotEqual(["10", "14"], self._shown(REACHED, "cut_off_objects"))

    def test_without_the_look_before_a_unit_runs(self):
        right = ["{'x': 5, 'y': 1}", "{'x': 7, 'y': 1}"]
        self.assertEqual(right, self._shown(PUT_ELSEWHERE))
        self.assertNotEqual(right, self._shown(PUT_ELSEWHERE, "checked"))

    def test_without_the_cut_off_of_what_is_needed_again(self):
        """Then that look finds it out, and all is planned and run a second time; without it, too, it is wrong."""
        right = ["[0, 1] 5", "[0, 1] 7"]
        self.assertEqual((right, 0), (self._shown(NEEDED_AGAIN), self.replans))
        self._shown(NEEDED_AGAIN, "cut_off_needed")
        self.assertLess(0, self.replans)
        self.assertNotEqual(right, self._shown(NEEDED_AGAIN, "cut_off_needed", "checked"))

    def test_without_any_cut_off(self):
        """It is right all the same, and runs what need not run."""
        code = "big = k > 3\nst.metric('m', str(big))"
        self.assertEqual(["True", "True"], self._shown(code))
        few = self.runs
        self.assertEqual(["True", "True"], self._shown(code, "cut_off"))
        self.assertLess(few, self.runs)

    def test_without_verification(self):
        Switches.verify = False
        try:
            board = oracle.Board(HEAD + SCRIPTS["a library that nobody knows"])
            with self.assertRaises(AssertionError):
                for values in EVENTS:
                    board.set(**values)
                    oracle.check(board, oracle.base_namespace())
        finally:
            Switches.verify = True


if __name__ == "__main__":
    tap.main()
