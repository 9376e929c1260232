"""dashboard.py: a control of a dashboard on 1,000,000 rows moved, and pages of a table of 10,000,000.

The script is fixed: a filter, a sum by category and a histogram, which take about as long on any
machine of a kind, and what shows them. What one event takes is told apart: the script's own
statements, what scb adds in the kernel (the functions that show things, and the engine), and what
lies between the page's call and the kernel.
"""
import random
import statistics

from report import Row
from scb import Server

EVENTS, PAGES = 60, 40

SCRIPT = """
import numpy as np
import pandas as pd
import streamlit as st
N = 1_000_000
rng = np.random.default_rng(0)
df = pd.DataFrame({"c": pd.Categorical.from_codes(rng.integers(0, 5, N), list("abcde")),
                   "v": rng.normal(size=N), "w": rng.integers(0, 100, N)})
k = st.slider("K", 0, 100, 3)
sel = df[df.w >= k]
by = sel.groupby("c").v.sum()
hist = np.histogram(sel.v, bins=40, range=(-5, 5))[0]
st.metric("Rows", len(sel))
st.bar_chart(by)
st.bar_chart(pd.Series(hist))
"""

TABLE = """
import numpy as np
import pandas as pd
import streamlit as st
N = 10_000_000
rng = np.random.default_rng(1)
big = pd.DataFrame({"f": rng.normal(size=N), "i": rng.integers(0, 10**6, N).astype("int32"),
                    "b": rng.integers(0, 5, N).astype("int8")})
st.dataframe(big)
"""

# In the kernel: what each request takes there, and of that the statements that are the script's own.
PROBE = """
def _probe(key):
    import gc, json, time
    service = next(o for o in gc.get_objects() if type(o).__name__ == "Service" and hasattr(o, "boards"))
    board, plain, log = service.boards[key], type(service).answer, {}
    def answer(request):
        before = dict(board.engine.records)
        began = time.perf_counter()
        plain(service, request)
        took = time.perf_counter() - began
        ran = [u for u in board.engine.script.units if board.engine.records.get(u.uid) is not before.get(u.uid)]
        cost = {True: 0.0, False: 0.0}
        for u in ran:
            cost["st." in u.text] += board.engine.records[u.uid].cost
        log[json.loads(request).get("event", {}).get("seq")] = took * 1e3, cost[False] * 1e3, cost[True] * 1e3
    service.answer = answer
    return log
_log = _probe(%r)
"""


def _show(server, code):
    made = server.tool("data_dashboard", code=code, wait_s=50)
    server.tool("run_code", session=made["session"], code=PROBE % made["dashboard"])
    return made["session"], made["dashboard"]


def _log(server, session):
    """What the kernel measured since the last time."""
    done = server.tool("run_code", session=session, code="print(_log); _log.clear()")
    return eval(done["stdout"], {"__builtins__": {}})


def _events(server):
    session, board = _show(server, SCRIPT)
    took = {}
    for i in range(1, EVENTS + 1):
        event = {"type": "set", "seq": i, "values": {"K": i}}
        took[i] = server.time_tool("dashboard_event", dashboard=board, event=event).net * 1e3
        # one that takes long has been answered before its end, and is none of the figures
        server.tool("dashboard_event", dashboard=board, event={"type": "poll", "seq": i, "wait_s": 20})
    inside = _log(server, session)
    server.close_session(session)
    seqs = [i for i in took if i in inside and took[i] >= inside[i][0]]
    total, log = [took[i] for i in seqs], [inside[i] for i in seqs]
    own = [user for _, user, _ in log]
    showing = [shown for _, _, shown in log]
    engine = [kernel - user - shown for kernel, user, shown in log]
    beyond = [kernel - user for kernel, user, _ in log]
    between = [call - kernel for call, (kernel, _, _) in zip(total, log)]
    costs = {"showing": statistics.median(showing), "engine": statistics.median(engine), "between": statistics.median(between)}
    second = max(costs, key=costs.get)
    yield Row("dashboard: event to patch, 1,000,000 rows", "ms", total, note=f"second largest: {second}")
    yield Row("  … the script's own statements", "ms", own)
    yield Row("  … what scb adds in the kernel", "ms", beyond, bar=5)
    yield Row("      of that, showing (metric, two charts)", "ms", showing)
    yield Row("      of that, the engine", "ms", engine)
    yield Row("  … between page and kernel", "ms", between, bar=2)


def _node(tree, kind):
    for node in tree:
        if node["t"] == kind:
            return node["id"]
        found = _node(node.get("of", []), kind)
        if found:
            return found
    return None


def _pages(server):
    session, board = _show(server, TABLE)
    tree = server.tool("dashboard_event", dashboard=board, event={"type": "open"})["tree"]
    table, choose = _node(tree, "table"), random.Random(1)
    _log(server, session)
    first, later, seqs = [], [], range(1, PAGES + 7)
    orders = [[[name, way]] for name in "fib" for way in ("asc", "desc")]
    for i in seqs:
        order = orders[i - 1] if i <= len(orders) else choose.choice(orders)
        event = {"type": "table", "seq": i, "id": table, "at": choose.randrange(0, 9_999_900), "n": 100, "sort": order}
        took = server.time_tool("dashboard_event", dashboard=board, event=event).net * 1e3
        (first if i <= len(orders) else later).append(took)
    inside = _log(server, session)
    server.close_session(session)
    between = [call - inside[i][0] for i, call in zip(seqs, first + later)]
    yield Row("dashboard: page of a sort order, 10,000,000 rows", "ms", later, bar=60)
    yield Row("  … the first of each order", "ms", first)
    yield Row("  … between page and kernel", "ms", between, bar=2)


def dashboard(bench):
    server = Server(bench.place(), "--limit", "memory=4G")
    yield from _events(server)
    yield from _pages(server)
    server.close()
    server.place.close()
