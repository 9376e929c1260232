"""Random programs and events: after each event the dashboard must show what a fresh run shows.

    fuzz.py [PROGRAMS [SEED]]     SCB_FUZZ_EVENTS: events a program (5)

Of every fourth program statements fail, and events give way to newer ones: then what the next event
that comes to its end shows is compared.
"""

import os
import random
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import oracle  # noqa: E402

HEAD = """import random
import strangelib
import numpy as np
import pandas as pd
import streamlit as st
k0 = st.slider("k0", 0, 5, 1)
k1 = st.slider("k1", 0, 5, 2)
k2 = st.slider("k2", 0, 5, 3)
n = [0, 1]
m = [1, 2]
d = {"a": [1], "b": {"x": 0}}
df = pd.DataFrame({"a": [1, 2, 3, 4], "b": [4.0, 3.0, 2.0, 1.0]})
arr = np.arange(4)
x, y, z = 1, 2, 3
class C:
    count = []
    def __init__(self, v):
        self.v = v
        self.items = []
        C.count.append(v)
    def add(self, v):
        self.items.append(v)
        self.v += v
o = C(1)
def make():
    total = 0
    def inc(v):
        nonlocal total
        total += v
        return total
    return inc
inc = make()
def g(v):
    return v * z + len(n)
def push(items, v):
    items.append(v)
    return len(items)
def scale(frame, v):
    frame["b"] = frame["b"] * v
    return frame
rng = np.random.default_rng(1)
it = iter(range(1000))
"""

LISTS, FRAMES, SCALARS, KS = ("n", "m"), ("df", "df2"), ("x", "y", "z"), ("k0", "k1", "k2")
TEMPLATES = (
    "{s} = {k} + {s2}", "{s} = {s2} * 2", "{s} = g({k})", "{s} = len({l}) + {k}", "{l}.append({k})",
    "{l} = {l2}", "{l} = list({l2})", "{l} = [{k}, {s}]", "{l} += [{s}]", "{l}.sort()", "{l}.extend({l2})",
    "for i in range({k}):\n    {l}.append(i + {s})", "if {k} > 2:\n    {s} = {s2} + 1",
    "if {k} > 2:\n    {l}.append({s})\nelse:\n    {s} = {k}", "d['a'].append({k})", "d['b']['x'] += {k}", "d['c'] = {l}",
    "d['b'] = dict(d['b'], y={k})", "d = {{'a': {l}, 'b': {{'x': {s}}}}}", "q = d['a']", "q = {l}\nq.append({k})",
    "{f} = df.copy()", "{f} = df", "{f}['a'] += {k}", "{f}['c'] = {f}['a'] * {k}", "{f} = {f}[{f}['a'] > {k} - 3]",
    "{f}.loc[{f}.index[:1], 'b'] = float({k})", "{f} = {f}.assign(b=lambda t: t['a'] + {k})", "{f}['b'] = {f}['b'] * {k}",
    "scale({f}, {k})", "{f} = scale({f}.copy(), {k})", "arr[0] = {k}", "arr = arr + {k}", "view = arr[1:]",
    "view = arr[1:]\nview[0] = {k}", "arr2 = np.sort(arr)", "np.random.seed({k})", "{s} = int(np.random.randint(100))",
    "{s} = random.randint(0, 100) + {k}", "random.seed(3)", "{s} = int(rng.integers(100))", "{s} = next(it)",
    "{s} = next(it) + {k}", "o.add({k})", "o.v = {s}", "o = C({k})", "p = o", "o.items = {l}", "{s} = o.v + len(C.count)",
    "{s} = inc({k})", "{s} = inc(1)", "inc = make()", "{s} = push({l}, {k})", "push(d['a'], {s})",
    "def g(v):\n    return v + {k} * z", "z = {k}", "{s} = sum({l})", "{s} = sum(i * {k} for i in {l})",
    "{l} = sorted({l2}, key=lambda v: -v * {k})", "{l} = [i + {k} for i in {l2}]", "random.shuffle({l})",
    "np.put(arr, [0], [{k}])", "{f}.sort_values('b', inplace=True)", "{f}.drop(columns=[], inplace=({k} > 2))",
    "{l}[:] = [{k}]", "{l}.clear()", "t = ({l}, {s})\nt[0].append({k})", "from operator import setitem\nsetitem({l}, 0, {k}) if {l} else None",
    "ser = {f}['b']", "ser = df['a']\nser[0] = {k}", "rows = [{{'v': i}} for i in range(3)]\nfor r in rows:\n    r['v'] *= {k}",
    "{s} = 5 if {k} < 10 else 6\n", "w = min({k}, 0)\n{l}.append(w)", "{f} = df.query('a > @{s} - @k0')", "for {s} in range(3):\n    pass",
    "strangelib.touch({f}, {k})", "strangelib.hide({l}, {k})", "del {l}[:1]", "with_k = {k}\nglobals_read = with_k + {s}", "try:\n    {s} = {l}[{k}]\nexcept IndexError:\n    {s} = -1",
)
FAILING = ("{s} = 7 // ({k} - 2)", "{l}.append(7 // ({k} - 1))", "{f}['a'] += 5 // ({k} - 3)", "{s} = {l}[{k}]")
GIVES_WAY = 0.04  # before a statement
SHOW = (
    "st.metric('l{i}', str({l}))", "st.metric('s{i}', {s})", "st.metric('f{i}', str({f}.to_dict('list')))",
    "st.metric('d{i}', str(d))", "st.metric('a{i}', str(arr.tolist()))", "st.metric('o{i}', str((o.v, o.items, C.count)))",
)


def fill(template, choose, i=0):
    return template.format(
        k=choose.choice(KS), s=choose.choice(SCALARS), s2=choose.choice(SCALARS), l=choose.choice(LISTS),
        l2=choose.choice(LISTS), f=choose.choice(FRAMES), i=i)


def program(choose, templates=TEMPLATES):
    lines = ["df2 = df.copy()"]
    for i in range(choose.randint(8, 20)):
        lines.append(fill(choose.choice(templates), choose))
        if choose.random() < 0.4:
            lines.append(fill(choose.choice(SHOW), choose, i))
    lines += [fill(show, choose, 100 + i) for i, show in enumerate(SHOW)]
    return HEAD + "\n".join(lines) + "\n"


class Wrong(Exception):
    pass


_others = []


def _other():
    if not _others:
        _others.append(oracle.Other())
    return _others[0]


def one(seed, events=5, partial=False):
    """Runs a program through some events. Returns (units run, units there were); Wrong where it differs."""
    choose, way = random.Random(seed), random.Random(seed)
    code = program(choose, TEMPLATES + FAILING if partial else TEMPLATES)
    state = random.getstate()
    log = []
    board = None
    try:
        random.seed(99)
        board = oracle.Board(code)
        if partial:
            board.kernel.newer_waits = lambda: way.random() < GIVES_WAY
        ran = total = 0
        moments = []
        for _ in range(events):
            if not board.engine.controls_alive() or (board.tree["status"] == "error" and not partial):
                break
            values = {k: choose.randint(0, 5) for k in choose.sample(KS, choose.randint(1, 2))}
            log.append(values)
            before = board.engine.runs
            board.set(**values)
            if board.tree["status"] == "error":
                continue
            moments.append(oracle.Moment(board, oracle.base_namespace()))
            ran += board.engine.runs - before
            total += len(board.engine.script.units)
        _other().check(moments)
        return ran, total, board.engine.fresh_runs
    except Exception as error:
        if isinstance(error, AssertionError):
            told = str(error)
        else:
            told = traceback.format_exc()
        raise Wrong(f"seed {seed}, events {log}\n{code[len(HEAD):]}\n{told[:3000]}") from None
    finally:
        random.setstate(state)


def main():
    programs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    events = int(os.environ.get("SCB_FUZZ_EVENTS", "5"))
    wrong = ran = total = fresh = 0
    for seed in range(first, first + programs):
        try:
            r, t, f = one(seed, events, seed % 4 == 0)
            ran, total, fresh = ran + r, total + t, fresh + f
        except Wrong as error:
            wrong += 1
            if wrong <= 3:
                print(error)
    print(f"{programs} programs, {wrong} wrong; {ran} of {total} statements ran again, {fresh} whole runs")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
