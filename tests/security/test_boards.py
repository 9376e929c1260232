#!/usr/bin/python3
"""Attacks by way of dashboards: a kernel that is the attacker's own says whatever it likes, and a client's events never end."""
import os
import signal
import time

import attack
import harness
from harness import SLOW

# Takes the place of what serves dashboards in the kernel: `answer` has the kernel and the request.
HOSTILE = r"""
import json, sys
def kernel():
    frame = sys._getframe()
    while type(frame.f_locals.get("self")).__name__ != "Kernel":
        frame = frame.f_back
    return frame.f_locals["self"]
def show(kind, text):
    k = kernel()
    k._shown = k._shown_bytes = 0
    k.emit([("application/vnd.scb.dashboard." + kind, text.encode())])
class Hostile:
    def answer(self, request):
        answer(json.loads(request))
kernel()._dashboards = Hostile()
"""
LARGE = '{"v":1,"rev":%d,"status":"STATUS","tree":[' + "{}," * 76_000 + "1]}"
ENDLESS = "import time\ntime.sleep(60)"


class Boards(attack.Attack):
    def tearDown(self):
        self.client.tool("session", action="close", session=self.session)

    def hostile(self, answer):
        """A session whose kernel answers requests for dashboards like that."""
        self.session = self.client.tool("session", action="open").session
        self.assertDone(self.py(HOSTILE + answer, session=self.session))

    def show(self, code, **arguments):
        r = self.client.tool("data_dashboard", code=code, **arguments)
        self.assertFalse(r.is_error, str(r))
        self.session, self.board = r.session, r.data["dashboard"]
        return r

    def event(self, type, **event):
        return self.client.tool("dashboard_event", dashboard=self.board, event={"type": type, **event})

    def busy_s(self):
        """What the broker's loop has taken of a processor."""
        with open(f"/proc/{self.client.server()}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def records(self, kind):
        return [name for _, _, names in os.walk(self.place.state) for name in names if name.startswith(kind + ".")]

    # -- what a kernel says

    def test_many_large_answers(self):
        """trees as large and as many as a cell may show take little of the loop's time, at the end and while it runs"""
        for status in ("ok", "running"):
            self.hostile("def answer(request):\n    for i in range(30):\n"
                         f"        show('tree+json', {LARGE!r}.replace('STATUS', {status!r}) % (i + 2))\n")
            before = self.busy_s()
            self.client.tool("data_dashboard", code="1", session=self.session, wait_s=50)
            self.assertLess(self.busy_s() - before, (0.5 if harness.SANITIZED else 0.13) * SLOW, status)
            self.tearDown()

    def test_never_whole(self):
        """a kernel that gives a part where the whole is asked for is not asked again and again, by nobody's call"""
        self.hostile("asked = 0\ndef answer(request):\n    global asked\n    asked += 1\n"
                     "    show('patch+json', json.dumps({'v': 1, 'from': 1, 'rev': 2, 'status': 'ok', 'set': {}}))\n")
        self.client.tool("data_dashboard", code="1", session=self.session)
        time.sleep(4.5)
        r = self.py("asked", session=self.session)
        self.assertLessEqual(int(r.results[0]["mime"]["text/plain"]), 2)

    # -- what a client asks

    def test_gathered_without_end(self):
        """values that are gathered are as many as fit a cell; what is refused stays nowhere"""
        self.show(ENDLESS, wait_s=0, timeout_s=60)
        texts = set()
        for i in range(20):
            values = {f"{i} {n} {'x' * 80}": 1 for n in range(1000)}
            r = self.event("set", seq=100 + i, values=values)
            texts.add(r.text if r.is_error else "")
        self.assertEqual(1, len(texts - {""}), texts)
        self.assertIn("limit_reached", "".join(texts))
        before = harness.memory(self.client.server())
        for i in range(150):
            self.assertTrue(self.event("set", seq=200 + i, values={f"{n} {'x' * 80}": 1 for n in range(1800)}).is_error)
        if not harness.SANITIZED:  # which keeps what was freed
            self.assertLess(harness.memory(self.client.server()) - before, 10 << 20)

    def test_held_and_left(self):
        """events that wait when their session ends, or that are cancelled, have an end: for who asks, and on record"""
        for end in ("close", "cancel"):
            self.show(ENDLESS, wait_s=0, timeout_s=60)
            self.event("set", seq=1, values={"a": 1})
            self.event("rerun", seq=2)
            if end == "close":
                self.tearDown()
            else:
                self.event("cancel")
            self.assertTrue(harness.until(lambda: self.event("poll", seq=2, wait_s=1).is_error, 10), end)
            if end == "cancel":
                self.tearDown()
            jobs = [{e["job"] for e in self.place.audit() if e["event"] == event and e["session"] == self.session}
                    for event in ("exec.start", "exec.end")]
            self.assertEqual(3, len(jobs[0]))
            self.assertEqual(*jobs, end)

    # -- what stays on the disk

    def test_codes(self):
        """a dashboard that gets new code leaves no record of each"""
        self.show("0")
        before = len(self.records("dashboard-code"))
        for i in range(1, 20):
            self.client.tool("data_dashboard", dashboard=self.board, code=str(i))
        self.assertEqual(before, len(self.records("dashboard-code")))

    def test_many_brokers(self):
        """a principal has 64 dashboards on record, however many brokers come and go"""
        session = self.client.tool("session", action="open").session
        for i in range(64):
            self.show(str(i), session=session)
        self.assertEqual(64, len(self.records("dashboard")))
        os.kill(self.client.server(), signal.SIGKILL)
        for i in range(4):
            self.show(str(i), session=session)
        self.assertEqual(64, len(self.records("dashboard")))


if __name__ == "__main__":
    harness.main()
