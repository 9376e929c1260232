"""Requests to the kernel, and what answers them. Prints TAP."""

import random
import unittest

from dash import Dashboard
import tap
from driver import ERROR, INTERRUPTED, OK

CODE = """
import streamlit as st
k = st.slider("K", 0, 10, 3)
st.metric("Twice", 2 * k)
print("k is", k)
"""


class Seam(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.board = Dashboard(CODE)

    @classmethod
    def tearDownClass(cls):
        cls.board.close()

    def test_new_answers_tree_outline_and_text(self):
        board = self.board
        answer = board.load(CODE, "new")
        self.assertEqual(board.tree["status"], "ok")
        self.assertEqual(board.metric("Twice"), 6)
        outline = answer.json("outline")
        self.assertEqual(outline["controls"][0]["label"], "K")
        self.assertIn("metric Twice 6", outline["shown"])
        self.assertIn(board.key, answer.text)
        self.assertIn("k is 3", answer.text)
        self.assertEqual(answer.result.status, OK)

    def test_an_event_answers_a_patch_and_says_what_ran(self):
        patch = self.board.set(K=5)
        self.assertEqual(self.board.metric("Twice"), 10)
        self.assertTrue(any("st.metric" in line for line in patch["ran"]))
        self.assertEqual(patch["status"], "ok")

    def test_later_code_sees_the_variables(self):
        self.board.set(K=4)
        self.assertEqual(self.board.kernel.run("k").value, "4")

    def test_what_is_not_there_is_said(self):
        for request in ({"op": "event", "id": "d-nothing00", "event": {"type": "open"}},
                        {"op": "fly", "id": self.board.key}, {"op": "new"},
                        {"op": "event", "id": self.board.key, "event": {"type": "set", "values": {"X": 1}}}):
            answer = self.board.request(**request)
            self.assertEqual((answer.result.status, answer.result.name), (ERROR, "BadRequest"))

    def test_open_answers_the_whole_tree(self):
        tree = self.board.event("open", seq=7).json("tree")
        self.assertEqual((tree["id"], tree["seq"]), (self.board.key, 7))

    def test_another_mode_is_refused(self):
        result = self.board.kernel.run("other\0{}")
        self.assertEqual((result.status, result.name), (ERROR, "UnknownMode"))

    def test_dropped_is_gone(self):
        other = Dashboard(CODE, self.board.kernel, key="d-11111111test")
        other.request(op="drop", id=other.key)
        self.assertEqual(other.event("open").result.name, "BadRequest")


class IPython(unittest.TestCase):
    def test_lines_that_are_no_python(self):
        board = Dashboard("%matplotlib inline\nimport streamlit as st\nk = st.slider('K', 0, 9, 1)\nlines = !echo {k}; echo 2\n"
                          "st.metric('Lines', ' '.join(lines))\nst.metric('Other', 5)")
        self.addCleanup(board.close)
        if "ipython" not in board.kernel.ready.values():
            self.skipTest("no IPython here")
        self.assertEqual(("ok", "1 2"), (board.tree["status"], board.metric("Lines")))
        patch = board.set(K=4)
        self.assertEqual("4 2", board.metric("Lines"))
        self.assertEqual(["line 3", "line 4", "line 5"], [line.split(":")[0] for line in patch["ran"]])
        board.load("x = (")
        self.assertIn("was never closed", board.nodes("error")[-1]["text"])


SLOW = """
import time
import streamlit as st
k = st.slider("K", 0, 10, 0)
items = [0]
items.append(k)
for _ in range(600 * (k == 5)):
    time.sleep(0.1)
st.metric("Twice", 2 * k)
st.metric("Sum", sum(items))
"""


MANY = """
import time
import streamlit as st
k = st.slider("K", 0, 100, 0)
j = st.slider("J", 0, 100, 0)
seen = []
""" + "".join(f"""seen.append(k)
try:
    time.sleep({{pause}} * (k == 5))
except KeyboardInterrupt:
    torn = True
    raise
st.metric("M{i}", k + {i})
""" for i in range(12)) + """
st.metric("Sum", sum(seen) + j)
"""


class GivesWay(unittest.TestCase):
    """An event whose input says that a newer one waits ends between two units."""

    def setUp(self):
        self.board = Dashboard(MANY.replace("{pause}", "0.1"))
        self.addCleanup(self.board.close)

    def shown(self):
        return [self.board.metric(f"M{i}") for i in range(12)] + [self.board.metric("Sum")]

    def overtaken(self, request, interrupt=False):
        """An event for which a newer one waits after 0.15 s."""
        self.board.kernel.input_after(0.15, b"\n")
        if interrupt:
            self.board.kernel.interrupt_after(0.25)
        return self.board.request(op="event", id=self.board.key, event=request)

    def test_and_the_next_one_goes_on_from_there(self):
        before = self.board.tree["rev"]
        answer = self.overtaken({"type": "set", "values": {"K": 5}})
        self.assertEqual(OK, answer.result.status)
        patch = answer.json("patch")
        self.assertEqual((True, "error"), (patch["overtaken"], patch["status"]))
        self.assertIn(len([line for line in patch["ran"] if "try" in line]), range(1, 6))
        # who has seen nothing of it gets all with the next one's patch
        patch = self.board.set(J=7)
        self.assertEqual((before, "ok"), (patch["from"], patch["status"]))
        self.assertEqual([5 + i for i in range(12)] + [12 * 5 + 7], self.shown())
        self.assertEqual([], self.board.nodes("error"))
        self.assertEqual([], [n for n in self.board.nodes() if n.get("stale")])
        self.assertEqual("NameError", self.board.kernel.run("torn").name)
        self.assertEqual(self.board.tree["rev"], self.board.set(J=8)["from"])

    def test_an_interrupt_for_it_is_the_same(self):
        board = self.board
        board.load(MANY.replace("{pause}", "30"))
        answer = self.overtaken({"type": "set", "values": {"K": 5}}, True)
        self.assertEqual(INTERRUPTED, answer.result.status)
        self.assertTrue(answer.json("patch")["overtaken"])
        board.set(K=6)
        self.assertEqual([6 + i for i in range(12)] + [12 * 6], self.shown())

    def test_what_the_script_reads_is_not_that_input(self):
        self.board.load("import streamlit as st\nk = st.slider('K', 0, 9, 0)\ntry:\n    got = input()\n"
                        "except EOFError:\n    got = 'none'\nst.metric('G', got)")
        self.assertEqual("none", self.board.metric("G"))

    def test_a_click_does_not(self):
        self.board.load("import time\nimport streamlit as st\nif st.button('go'):\n    time.sleep(0.3)\n    m = 1\nelse:\n    m = 0\n"
                        "st.metric('M', m)")
        answer = self.overtaken({"type": "click", "id": "go"})
        self.assertNotIn("overtaken", answer.json("patch"))
        self.board.merge(answer)
        self.assertEqual(1, self.board.metric("M"))

    def test_an_interrupt_at_any_moment_leaves_what_the_next_event_needs(self):
        board, choose = self.board, random.Random(7)
        for k in range(6, 66):
            timer = board.kernel.interrupt_after(choose.random() * 0.012)
            answer = board.event("set", values={"K": k})
            timer.join()
            if "patch+json" not in answer.parts:  # it had not begun
                answer = board.event("set", values={"K": k})
            board.merge(answer)
            board.merge(board.event("set", values={"J": k}))
            self.assertEqual([k + i for i in range(12)] + [12 * k + k], self.shown())


class Interrupted(unittest.TestCase):
    def test_an_interrupted_run_goes_on_with_the_next_event(self):
        board = Dashboard(SLOW)
        try:
            board.kernel.interrupt_after(1)
            answer = board.event("set", values={"K": 5}, seq=3)
            self.assertEqual(answer.result.status, INTERRUPTED)
            patch = board.merge(answer)
            self.assertEqual((patch["status"], patch["seq"]), ("error", 3))
            self.assertEqual(board.metric("Twice"), 0)
            self.assertTrue(board.nodes("metric")[0]["stale"])
            board.set(K=7)
            self.assertEqual((board.metric("Twice"), board.metric("Sum"), board.tree["status"]), (14, 7, "ok"))
            self.assertNotIn("stale", board.nodes("metric")[0])
        finally:
            board.close()

    def test_an_export_is_a_file_of_the_workspace(self):
        board = Dashboard("import pandas as pd\npd.DataFrame({'a': [2, 1]})")
        try:
            answer = board.event("export", id=board.node("table")["id"], format="csv", sort=[["a", "asc"]])
            export = answer.json("page")["export"]
            self.assertEqual(board.kernel.run(f"print(open({export['path']!r}).read())").out, "a\n1\n2\n\n")
            self.assertEqual(export["name"], export["path"].rpartition("/")[2])
        finally:
            board.close()

    def test_pictures_come_when_they_are_asked_for(self):
        board = Dashboard("import matplotlib.pyplot as plt\nplt.plot([1, 2])")
        try:
            answer = board.event("image", id=board.node("image")["id"])
            self.assertIn(b"<svg", answer.parts["image/svg+xml"][0])
            self.assertEqual(board.kernel.run("1").shown[0][1], {"text/plain": b"1"})
        finally:
            board.close()


if __name__ == "__main__":
    tap.main()
