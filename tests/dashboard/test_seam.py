"""Requests to the kernel, and what answers them. Prints TAP."""

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
