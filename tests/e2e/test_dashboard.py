#!/usr/bin/python3
"""Dashboards over MCP: made, moved, read on by another broker, kept when their session has gone."""
import json
import os
import shutil
import signal
import threading
import time
import unittest

import harness
from harness import SLOW, until

VERIFY = os.environ.get("SCB_VERIFY") == "1"
ORACLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "dashboard")
CODE = """
import scb
with open("loads", "a") as f:
    f.write("x")
n = scb.slider("Count", 1, 50, 10)
kind = scb.selectbox("Kind", ["sum", "mean"])
values = list(range(n))
scb.metric("Result", sum(values) if kind == "sum" else sum(values) / n)
"""
SLOW_CODE = """
import scb, time
n = scb.slider("Count", 1, 50, 10)
time.sleep(30 if n == 40 else 0)
scb.metric("Result", n)
"""
PARTS_CODE = """
import os, scb, time
n = scb.slider("Count", 1, 50, 10)
scb.metric("Fast", n)
while n == 40 and not os.path.exists("go"):
    time.sleep(0.05)
scb.bar_chart({"a": n})
"""
STEPS_CODE = """
import scb, time
n = scb.slider("Count", 1, 50, 10)
m = scb.slider("More", 1, 50, 10)
def step(i):
    try:
        time.sleep(0.03 * (n == 40))
    except KeyboardInterrupt:
        open("torn", "a").write(str(i))
        raise
    with open("steps", "a") as f:
        f.write(f"{n} ")
""" + "".join(f"step({i})\n" for i in range(100)) + """
scb.metric("Result", n)
scb.metric("Other", m)
if scb.button("Go"):
    for i in range(10):
        time.sleep(0.08)
    scb.metric("Gone", n)
"""


class Dashboard(unittest.TestCase):
    maxDiff = 3000

    def setUp(self):
        self.place = harness.Place()
        self.clients = []
        self.verified = {}
        self.seq = 0
        self.c = self.serve()

    def tearDown(self):
        self.verified_events()
        for c in self.clients:
            if c.alive():
                c.close()
        self.place.end()
        for c in self.clients:
            self.assertEqual([], c.faults)
        shutil.rmtree(self.place.top, True)

    def explain(self):
        return "".join(c.explain() for c in self.clients)

    def serve(self, *arguments):
        c = self.place.serve(*arguments)
        self.clients.append(c)
        c.initialize()
        return c

    def verify(self, **session):
        """Has the session's kernel compare each event with a whole run, where that is wanted."""
        for name in ("oracle.py", "verify.py"):
            with open(os.path.join(ORACLE, name), encoding="utf-8") as f:
                self.c.tool("files", action="write", path=f"verify/{name}", content=f.read(), **session)
        r = self.c.tool("run_code", code="import sys; sys.path.insert(0, 'verify'); import verify as _v; _v.install()", **session)
        self.assertEqual("exit", r.reason, str(r))
        self.verified[r.session] = self.c

    def verified_events(self):
        """How many events were right; those that were not fail the test."""
        n = 0
        for session, client in self.verified.items():
            r = client.tool("run_code", code="print(*_v.log, sep='\\n')", session=session) if client.alive() else None
            lines = (r.stdout or "").split("\n") if r and not r.is_error and not r.error else []
            self.assertEqual([], [line for line in lines if line not in ("ok", "")])
            n += lines.count("ok")
        return n

    def show(self, code=CODE, verified=True, **arguments):
        if VERIFY and verified:
            self.verify(**{k: v for k, v in arguments.items() if k == "session"})
        r = self.c.tool("data_dashboard", code=code, **arguments)
        self.assertFalse(r.is_error, str(r))
        self.board = r.data["dashboard"]
        self.session = r.data["session"]
        self.assertIn(self.board, r.text)
        return r

    def event(self, type, client=None, **event):
        self.seq += 1
        r = (client or self.c).tool("dashboard_event", dashboard=self.board,
                                    event={"type": type, "seq": self.seq, "rev": 0, **event})
        self.assertFalse(r.is_error, str(r))
        return r.data

    def move(self, client=None, **values):
        """A move and what comes of it, however long it takes."""
        patch = self.event("set", client, values=values)
        return self.event("poll", client, seq=self.seq, wait_s=20) if patch["status"] == "running" else patch

    def opened(self, client=None):
        tree = self.event("open", client)
        return {node["label"]: node.get("value", node.get("text")) for node in nodes(tree["tree"]) if "label" in node}

    # -- what is ready

    def test_what_is_ready_is_shown_while_the_rest_runs(self):
        """a poll has the fast part before the slow one ends, and the end has all, also for who saw nothing between"""
        self.show(PARTS_CODE, verified=False)  # which waits for a file in its folder
        tree = self.event("open")
        rev, seq = tree["rev"], self.seq + 1
        patch = self.event("set", values={"Count": 40}, rev=rev)
        while not patch.get("set"):  # the first may have come before anything was ready
            self.assertEqual("running", patch["status"])
            patch = self.event("poll", seq=seq, rev=rev, wait_s=20)
        self.assertEqual("running", patch["status"])
        self.assertEqual([40], [n["value"] for n in patch["set"].values() if n.get("label") == "Fast"])
        self.assertEqual([], [n for n in patch["set"].values() if n["t"] == "chart"])
        self.assertLess(rev, patch["rev"])
        self.c.tool("run_command", command="touch go", session=self.session)
        last = patch
        while last["status"] == "running":
            last = self.event("poll", seq=seq, rev=patch["rev"], wait_s=20)
        self.assertEqual("ok", last["status"])
        self.assertEqual(rev, last["from"])
        self.assertLess(patch["rev"], last["rev"])
        self.assertEqual({"metric", "chart", "slider"}, {n["t"] for n in last["set"].values()})

    # -- who is told what

    def test_with_pages_and_without(self):
        """who shows pages gets the tree along with the answer, who does not the first rows and a picture"""
        code = ("import pandas as pd, matplotlib.pyplot as plt, scb\n"
                "scb.dataframe(pd.DataFrame({'city': [f'Wien {i}' for i in range(30)], 'n': range(30)}))\n"
                "plt.plot([1, 2])\nscb.pyplot(plt.gcf())")
        r = self.show(code)
        self.assertNotIn("_meta", r.result)
        self.assertIn("city | n\nWien 0 | 0\n", r.text)
        self.assertIn("Wien 9 | 9", r.text)
        self.assertNotIn("Wien 10", r.text)
        self.assertEqual(["image/png"], [image["mimeType"] for image in r.images])
        self.assertLess(len(r.images[0]["data"]), 4 / 3 * 150_000 + 4)
        pages = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
        with_pages = self.place.serve()
        self.clients.append(with_pages)
        with_pages.initialize(capabilities=pages)
        r = with_pages.tool("data_dashboard", code=code, wait_s=50)
        tree = r.result["_meta"]["scb/tree"]
        self.assertEqual((r.data["dashboard"], ["table", "image"]), (tree["id"], [n["t"] for n in tree["tree"]]))
        self.assertNotIn("Wien", r.text)
        self.assertEqual([], r.images)
        # above 64 KB the page fetches it
        r = with_pages.tool("data_dashboard", code="import scb\nfor i in range(8): scb.text('x' * 10_000 + str(i))")
        self.assertNotIn("_meta", r.result)
        # the newer era says with each call what it can
        for capabilities, there in ((pages, True), ({}, False)):
            params = {"name": "data_dashboard", "arguments": {"code": CODE}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": capabilities}}
            result = with_pages.request("tools/call", params).result()
            self.assertEqual(there, "scb/tree" in result["_meta"])

    def test_found_by_its_code(self):
        """a page that was given no handle finds its dashboard by code and session, after a broker's death too"""
        first = self.show().data
        second = self.show(session=self.c.tool("session", action="open").session).data
        self.assertNotEqual(first["session"], second["session"])

        def found(**event):
            r = self.c.tool("dashboard_event", event={"type": "open", "code": CODE, **event})
            return str(r) if r.is_error else r.data["dashboard"]
        self.assertEqual(second["dashboard"], found())
        self.assertEqual(first["dashboard"], found(session=first["session"]))
        self.assertIn("no such dashboard", found(session="s-" + "0" * 32))
        self.assertIn("no such dashboard", found(code=CODE + "# other"))
        r = self.c.tool("dashboard_event", event={"type": "open"})
        self.assertTrue(r.is_error and "dashboard" in r.text, str(r))
        os.kill(self.c.server(), signal.SIGKILL)
        self.assertEqual(second["dashboard"], found())
        # new code is what it is found by from then on
        self.c.tool("data_dashboard", dashboard=second["dashboard"], code="import scb\nscb.metric('Only', 7)")
        self.assertEqual(second["dashboard"], found(code="import scb\nscb.metric('Only', 7)"))

    def test_two_pages(self):
        """two pages on one dashboard: each learns what the other has moved"""
        self.show()
        one = self.event("open")
        other = self.serve()
        two = self.event("open", other)
        self.assertEqual(one["rev"], two["rev"])
        patch = self.move(Count=20)
        self.assertEqual((one["rev"], one["rev"] + 1), (patch["from"], patch["rev"]))
        patch = self.move(other, Kind="mean")
        self.assertEqual(one["rev"] + 1, patch["from"])  # not what that page has: it opens anew
        self.assertEqual({"Count": 20, "Kind": "mean", "Result": 9.5}, self.opened(other))
        self.assertEqual(self.opened(), self.opened(other))

    # -- what is shown

    def test_shown_and_moved(self):
        r = self.show()
        self.assertEqual("ok", r.data["status"])
        self.assertEqual(["Count", "Kind"], [control["label"] for control in r.data["controls"]])
        self.assertRegex(r.text, r"Result 45\b")
        self.assertEqual({"Count": 10, "Kind": "sum", "Result": 45}, self.opened())
        patch = self.move(Count=20)
        self.assertEqual("ok", patch["status"])
        self.assertEqual([190], [n["value"] for n in patch["set"].values() if n["t"] == "metric"])
        # the variables are the session's
        r = self.c.tool("run_code", code="n, open('loads').read()", session=self.session)
        self.assertEqual("(20, 'x')", r.results[0]["mime"]["text/plain"])
        # the model may move controls, too, and sees the same
        r = self.c.tool("data_dashboard", dashboard=self.board, event={"type": "set", "values": {"Kind": "mean"}})
        self.assertRegex(r.text, r"Result 9\.5\b")
        self.assertEqual({"Count": 20, "Kind": "mean", "Result": 9.5}, self.opened())
        if VERIFY:
            self.assertEqual(2, self.verified_events())
        # some hosts give objects as texts
        r = self.c.tool("dashboard_event", dashboard=self.board, event=json.dumps({"type": "open"}), plain=True)
        self.assertEqual(self.board, json.loads(r.text)["id"])

    def test_plain_value_and_edit(self):
        r = self.show("{'revenue': 1200, 'orders': 381}", title="Numbers")
        self.assertEqual("Numbers", r.data["title"])
        self.assertEqual({"revenue": 1200, "orders": 381}, self.opened())
        r = self.c.tool("data_dashboard", dashboard=self.board, code="import scb\nscb.metric('Only', 7)")
        self.assertEqual((self.board, False), (r.data["dashboard"], r.is_error), str(r))
        self.assertEqual({"Only": 7}, self.opened())

    def test_faults(self):
        r = self.c.tool("data_dashboard", code="x = 1 /")
        self.assertTrue(r.is_error, str(r))
        r = self.c.tool("data_dashboard", code="import scb\nscb.metric('a', 1)\nmissing_name")
        self.assertIn("missing_name", r.text)
        self.assertEqual("error", r.data["status"])
        for arguments, words in (({}, "either"), ({"code": "1", "event": {"type": "open"}}, "either"),
                                 ({"event": {"type": "open"}}, "dashboard"),
                                 ({"dashboard": "d-" + "0" * 32, "code": "1"}, "no such dashboard")):
            r = self.c.tool("data_dashboard", **arguments)
            self.assertTrue(r.is_error and words in r.text, str(r))
        self.show()
        for event in ({}, {"type": "format"}, {"type": 5}, {"type": "set", "values": 7}):
            r = self.c.tool("dashboard_event", dashboard=self.board, event=event)
            self.assertTrue(r.is_error or r.data["status"] in ("ok", "error"), str(r))
        self.assertEqual({"Count": 10, "Kind": "sum", "Result": 45}, self.opened())

    def test_of_another(self):
        self.show()
        other = self.serve("--state", os.path.join(self.place.home, "other"))
        r = other.tool("dashboard_event", dashboard=self.board, event={"type": "open"})
        self.assertTrue(r.is_error and "no such dashboard" in r.text, str(r))

    # -- what takes long

    def test_slow(self):
        self.show(SLOW_CODE)
        began = time.monotonic()
        patch = self.event("set", values={"Count": 40})
        self.assertEqual("running", patch["status"])
        seq = self.seq
        self.assertLess(time.monotonic() - began, 5 * SLOW)
        # while its kernel is busy it can be shown, and polled
        self.assertEqual("running", self.event("open")["status"])
        self.assertEqual("running", self.event("poll", seq=seq, wait_s=0.1)["status"])
        # a newer value does not wait for the older one
        done = self.event("set", values={"Count": 12})
        done = done if done["status"] != "running" else self.event("poll", seq=self.seq, wait_s=20)
        self.assertEqual("ok", done["status"], done)
        self.assertLess(time.monotonic() - began, 20 * SLOW)
        self.assertEqual({"Count": 12, "Result": 12}, self.opened())

    def test_cancel(self):
        self.show(SLOW_CODE)
        self.assertEqual("running", self.event("set", values={"Count": 40})["status"])
        seq = self.seq
        self.event("cancel")
        self.assertNotEqual("running", self.event("poll", seq=seq, wait_s=20)["status"])
        self.move(Count=3)
        self.assertEqual({"Count": 3, "Result": 3}, self.opened())

    def test_quick_moves_are_one(self):
        """Moves that come while one runs are one event, the newest value's."""
        self.show(SLOW_CODE)
        answers = []

        def move(value):
            answers.append(self.c.tool("dashboard_event", dashboard=self.board,
                                       event={"type": "set", "seq": 100 + value, "rev": 0, "values": {"Count": value}}))
        began = time.monotonic()
        threads = [threading.Thread(target=move, args=(v,)) for v in (40, 20, 21, 22, 23)]
        for t in threads:
            t.start()
            time.sleep(0.05)
        for t in threads:
            t.join()
        self.assertTrue(until(lambda: self.event("poll", seq=0, wait_s=20)["status"] == "ok", 30 * SLOW))
        self.assertLess(time.monotonic() - began, 15 * SLOW)
        self.assertEqual({"Count": 23, "Result": 23}, self.opened())
        starts = [e for e in self.place.audit() if e["event"] == "exec.start" and e["tool"] == "dashboard_event"]
        self.assertLess(len(starts), 5 + 3)  # fewer than the moves and the looks since

    def test_newer_ends_older_between_statements(self):
        """an event ends between two statements for a newer one; who waits for it has that one's answer, and no value is lost"""
        self.show(STEPS_CODE, verified=False)  # whose time and files count
        tree = self.event("open")
        calls = []
        for seq, values in ((501, {"Count": 40}), (502, {"More": 30})):
            calls.append(self.c.start("dashboard_event", dashboard=self.board,
                                      event={"type": "set", "seq": seq, "rev": tree["rev"], "values": values}))
            time.sleep(0.1)
        # what the next move finds is still on its way
        calls.append(self.c.start("dashboard_event", dashboard=self.board,
                                  event={"type": "set", "seq": 503, "rev": tree["rev"], "values": {"Count": 20}}))
        answers = [self.c.finish(call) for call in calls]
        self.assertEqual([], [str(r) for r in answers if r.is_error])
        last = answers[-1].data
        while last["status"] == "running":
            last = self.event("poll", seq=503, rev=tree["rev"], wait_s=20)
        self.assertEqual(("ok", tree["rev"]), (last["status"], last["from"]), last)
        self.assertEqual({"Count": 20, "More": 30, "Result": 20, "Other": 30, "Go": None}, self.opened())
        self.assertEqual("ok", self.event("poll", seq=501, rev=tree["rev"], wait_s=20)["status"])
        r = self.c.tool("run_code", session=self.session, code="import os; (os.path.exists('torn'), open('steps').read().split())")
        torn, steps = eval(r.results[0]["mime"]["text/plain"])
        self.assertFalse(torn)
        self.assertLess(steps.count("40"), 100)
        self.assertGreaterEqual(steps.count("20"), 100)

    def test_values_behind_other_code_are_not_lost(self):
        """an event that waited behind a cell and made way before it began: its values come with the next one's"""
        self.show(STEPS_CODE, verified=False)  # whose time and files count
        self.c.tool("run_code", session=self.session, code="import time; time.sleep(2)", wait_s=0)
        calls = [self.c.start("dashboard_event", dashboard=self.board,
                              event={"type": "set", "seq": 501 + i, "rev": 0, "values": values})
                 for i, values in enumerate(({"Count": 33}, {"More": 8}))]
        answers = [self.c.finish(call) for call in calls]
        self.assertEqual([], [str(r) for r in answers if r.is_error])
        self.assertTrue(until(lambda: self.event("poll", seq=502, wait_s=20)["status"] == "ok", 30 * SLOW))
        self.assertEqual({"Count": 33, "More": 8, "Result": 33, "Other": 8, "Go": None}, self.opened())

    def test_a_click_is_not_lost(self):
        """a click runs to its end, whatever is moved meanwhile"""
        self.show(STEPS_CODE, verified=False)  # whose time and files count
        call = self.c.start("dashboard_event", dashboard=self.board, event={"type": "click", "seq": 501, "rev": 0, "id": "Go"})
        time.sleep(0.2)
        self.event("set", values={"More": 7})
        patch = self.c.finish(call).data
        while patch["status"] == "running":
            patch = self.event("poll", seq=501, rev=0, wait_s=20)
        self.assertIn("Gone", [n.get("label") for n in patch["set"].values()])
        self.assertTrue(until(lambda: self.opened()["Other"] == 7, 20 * SLOW))

    def test_too_many_wait(self):
        """what cannot be gathered waits, but not without end"""
        self.show(SLOW_CODE)
        self.event("set", values={"Count": 40})
        calls = [self.c.start("dashboard_event", dashboard=self.board, event={"type": "rerun", "seq": 1000 + i})
                 for i in range(30)]
        answers = [self.c.finish(call) for call in calls]
        refused = [r for r in answers if r.is_error]
        self.assertTrue(1 <= len(refused) <= 14, len(refused))
        self.assertIn("wait", refused[0].text)
        self.event("cancel")
        self.assertTrue(until(lambda: self.event("open")["status"] != "running", 30 * SLOW))
        self.move(Count=3)
        self.assertEqual({"Count": 3, "Result": 3}, self.opened())

    # -- what outlives what

    def test_forked_kernel(self):
        """a dashboard stays with its kernel: a fork of that has the variables, and moves nothing"""
        self.show()
        self.move(Count=20)
        twin = self.c.tool("session", action="fork", session=self.session).data
        twin = twin.get("kernel") or twin["kernels"][-1]["name"]

        def there(code):
            return self.c.tool("run_code", session=self.session, kernel=twin, code=code).results[0]["mime"]["text/plain"]
        self.assertEqual("(20, 190)", there("n, sum(values)"))
        self.move(Count=5)
        self.assertEqual({"Count": 5, "Kind": "sum", "Result": 10}, self.opened())
        self.assertEqual("(20, 'x')", there("n, open('loads').read()"))
        there("n = 1; n")
        self.move(Kind="mean")
        self.assertEqual({"Count": 5, "Kind": "mean", "Result": 2}, self.opened())

    def test_restarted_kernel(self):
        """a kernel that was restarted knows no dashboard, and says what to do"""
        self.show()
        self.c.tool("session", action="restart", session=self.session)
        r = self.c.tool("dashboard_event", dashboard=self.board, event={"type": "set", "seq": 7, "values": {"Count": 5}})
        if not r.is_error:  # the new kernel is not there yet
            r = self.c.tool("dashboard_event", dashboard=self.board, event={"type": "poll", "seq": 7, "wait_s": 20})
        self.assertTrue(r.is_error and "run its code again" in r.text, str(r))
        r = self.c.tool("data_dashboard", dashboard=self.board, code=CODE)
        self.assertEqual((False, self.board), (r.is_error, r.data["dashboard"]))
        self.assertEqual({"Count": 10, "Kind": "sum", "Result": 45}, self.opened())

    def test_broker_killed(self):
        self.show()
        self.move(Count=20)
        os.kill(self.c.server(), signal.SIGKILL)
        self.assertEqual({"Count": 20, "Kind": "sum", "Result": 190}, self.opened())
        self.move(Count=5)
        self.assertEqual({"Count": 5, "Kind": "sum", "Result": 10}, self.opened())
        r = self.c.tool("run_code", code="n, open('loads').read()", session=self.session)
        self.assertEqual("(5, 'x')", r.results[0]["mime"]["text/plain"])

    def test_session_closed(self):
        """What was shown last can be looked at; nothing runs any more."""
        self.show()
        self.assertEqual(45, self.opened()["Result"])
        self.c.tool("session", action="close", session=self.session)
        tree = self.event("open")
        self.assertEqual("expired", tree["status"])
        self.assertIn(45, [n.get("value") for n in nodes(tree["tree"])])
        self.assertEqual("expired", self.event("set", values={"Count": 5})["status"])
        r = self.c.tool("data_dashboard", dashboard=self.board, code="1")
        self.assertTrue(r.is_error and "session" in r.text, str(r))

    def test_recorded(self):
        self.show()
        self.move(Count=20)
        self.c.close()
        self.place.end()
        events = self.place.audit()
        starts = {e["job"]: e for e in events if e["event"] == "exec.start" and e["tool"] != "run_code"}
        ends = {e["job"]: e for e in events if e["event"] == "exec.end" and e["tool"] != "run_code"}
        self.assertEqual({"data_dashboard", "dashboard_event"}, {e["tool"] for e in starts.values()})
        self.assertEqual(set(starts), set(ends))
        self.assertEqual({0}, {e.get("exitCode") for e in ends.values()})


def nodes(tree):
    for node in tree:
        yield node
        yield from nodes(node.get("of", []))


if __name__ == "__main__":
    harness.main()
