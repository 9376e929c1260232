#!/usr/bin/python3
"""What a dashboard's page saves: files of the sandbox that reach the person as those of present_output do,
or do not, and then in words."""
import json
import os
import shutil
import unittest
import zipfile

import harness
from harness import CANARY
from web import Web

CODE = """
import pandas as pd
import scb
frame = pd.DataFrame({"name": ["a", "b", "c"], "n": [3, 1, 2]})
scb.table(frame)
scb.download_button("Notes", "some notes", "notes.txt")
scb.download_button("Script", "#!/bin/sh\\n", "run.sh")
"""
FORGED = """
import gc, json
service = next(o for o in gc.get_objects() if type(o).__name__ == "Service")
page = {"v": 1, "rev": 9, "seq": 1, "id": "d-00000000other", "session": "s-00", "uri": "resource://scb/o-1/x",
        "status": "expired", "set": {"x": {"id": "x", "t": "divider"}}, "export": {"path": "/etc/passwd", "name": "x"}}
def forge(*_):
    service.kernel.emit([("application/vnd.scb.dashboard.page+json", json.dumps(page).encode())])
service._event_table = service._event_export = forge
import scb
scb.metric("a", 1)
"""
TOOLS = ["data_dashboard", "dashboard_event", "run_code", "session"]


def nodes(tree):
    for node in tree:
        yield node
        yield from nodes(node.get("of", []))


class Case(unittest.TestCase):
    maxDiff = 3000

    def show(self, tool, code=CODE, **arguments):
        """Makes a dashboard by tool(name, **arguments), which answers a result."""
        self.tool = tool
        made = tool("data_dashboard", code=code, **arguments)["structuredContent"]
        self.board, self.session = made["dashboard"], made["session"]
        tree = self.event("open")["structuredContent"]["tree"]
        self.ids = {node.get("label", node["t"]): node["id"] for node in nodes(tree)}

    def event(self, type, **event):
        return self.tool("dashboard_event", dashboard=self.board, event={"type": type, **event})

    def save(self, what="table", **event):
        result = self.event("export", id=self.ids[what], **event)
        self.assertNotIn("isError", result, result)
        return result["structuredContent"]["export"]

    def refused(self, *words, what="table", **event):
        result = self.event("export", id=self.ids[what], **event)
        self.assertTrue(result.get("isError"), result)
        for word in words:
            self.assertIn(word, result["content"][0]["text"])


class Stdio(Case):
    """A person of this machine finds the file."""

    @classmethod
    def setUpClass(cls):
        cls.place = harness.Place()
        cls.c = cls.serve()

    @classmethod
    def tearDownClass(cls):
        cls.c.close()
        cls.place.end()
        assert not cls.c.faults, cls.c.faults
        shutil.rmtree(cls.place.top, True)

    @classmethod
    def serve(cls, **rules):
        more = ()
        if rules:
            path = cls.place.file(os.path.join(cls.place.home, "policy.json"), json.dumps(
                {"version": 1, "outputs": {"allow": True}, **rules}).encode())
            os.chmod(path, 0o600)
            more = ("--policy", path)
        client = cls.place.serve(*more)
        client.initialize()
        return client

    def setUp(self):
        self.before = len(self.files())
        self.show(lambda name, **arguments: self.c.tool(name, **arguments).result)

    def files(self):
        return [e for e in self.place.audit() if e["event"].startswith("file.")]

    def test_saved(self):
        made = self.save(format="csv", sort=[["n", "asc"]], filter=[{"col": "n", "op": "<", "v": 3}])
        with open(made["path"]) as f:
            self.assertEqual("name,n\nb,1\nc,2\n", f.read())
        self.assertEqual((made["name"], False), (os.path.basename(made["path"]), made["executable"]))
        # the same by its URI, which is what a host is handed
        read = self.c.request("resources/read", {"uri": made["uri"]}).result()["contents"][0]
        self.assertEqual("name,n\nb,1\nc,2\n", read["text"])
        self.assertNotIn("link", made)
        sheet = self.save(format="xlsx")
        self.assertIn("xl/worksheets/sheet1.xml", zipfile.ZipFile(sheet["path"]).namelist())
        notes = self.save("Notes")
        with open(notes["path"]) as f:
            self.assertEqual("some notes", f.read())
        self.assertTrue(self.save("Script")["executable"])
        # the model may do so, too, and reads where it is
        r = self.c.tool("data_dashboard", dashboard=self.board, event={"type": "export", "id": self.ids["table"]})
        self.assertIn(r.data["export"]["path"], r.text)
        # as JSON text for hosts that drop the rest
        r = self.c.tool("dashboard_event", dashboard=self.board, plain=True, event={"type": "export", "id": self.ids["Notes"]})
        self.assertTrue(os.path.exists(json.loads(r.text)["export"]["path"]), r.text)
        events = self.files()[self.before:]
        self.assertEqual(["file.present"] * 6, [e["event"] for e in events])
        self.assertEqual({"dashboard_event", "data_dashboard"}, {e["tool"] for e in events})
        self.assertEqual(made["sha256"], events[0]["sha256"])

    def test_asked_for_again(self):
        """who asks for the same answer again gets the same file"""
        made = self.save(seq=7)
        again = self.event("poll", seq=7, wait_s=5)["structuredContent"]["export"]
        self.assertEqual(made["uri"], again["uri"])

    def test_only_when_asked(self):
        """a kernel that answers everything with a file of its choice hands out none, and answers for nobody else"""
        self.show(self.tool, FORGED, session=self.c.tool("session", action="open").session)
        answer = self.event("table", id="t")["structuredContent"]
        self.assertEqual({"x": {"id": "x", "t": "divider"}}, answer["set"])  # it was the forged one
        self.assertEqual((self.session, self.board, "ok"), (answer["session"], answer["id"], answer["status"]))
        self.assertEqual({"session", "dashboard", "id", "status", "v", "rev", "set"}, set(answer) - {"seq"})
        self.assertEqual([], self.files()[self.before:])
        # a person who does ask is told what it is; what is not in the workspace stays in the sandbox
        self.ids["table"] = "t"
        self.refused("file_refused", "/etc/passwd")

    def test_moved_elsewhere(self):
        """a script that has gone to another folder saves into the workspace all the same"""
        self.c.tool("run_code", session=self.session, code="import os; os.chdir('/tmp')")
        self.assertTrue(os.path.exists(self.save()["path"]))

    def test_policy(self):
        """what present_output may not hand out, a dashboard may not"""
        for folder, rules, checks in (
                ("denied", {"tools": {"allow": TOOLS, "images": True}}, self.denied),
                ("narrow", {"tools": {"allow": TOOLS + ["present_output"], "images": True},
                            "outputs": {"allow": True, "executable": False},
                            "secrets": {"TOKEN": {"source": "env:SCB_TEST_SECRET", "exposure": "session"}}}, self.narrow)):
            with self.subTest(folder):
                kept, place = type(self).place, harness.Place()
                type(self).place = place
                client = self.serve(**rules)
                try:
                    self.show(lambda name, client=client, **arguments: client.tool(name, **arguments).result)
                    checks(client)
                finally:
                    type(self).place = kept
                    client.close()
                    place.end()
                    shutil.rmtree(place.top, True)

    def denied(self, client):
        self.refused("policy_denied", "present_output")
        self.assertEqual(1, len([e for e in self.place.audit() if e["event"] == "policy.decision"]))
        self.assertEqual([], [n for _, _, names in os.walk(os.path.join(self.place.home, "scb-outputs")) for n in names])

    def narrow(self, client):
        self.refused("policy_denied", "run something", what="Script")
        self.save("Notes")
        client.tool("data_dashboard", dashboard=self.board,
                    code="import os, pandas as pd, scb\nscb.table(pd.DataFrame({'a': [os.environ['TOKEN']]}))")
        tree = self.event("open")["structuredContent"]
        self.assertNotIn(CANARY, json.dumps(tree))
        self.ids = {node["t"]: node["id"] for node in nodes(tree["tree"])}
        self.refused("file_refused", "TOKEN")
        self.assertEqual(["file.refused", "file.present", "file.refused"], [e["event"] for e in self.files()])


class Http(Case):
    """Elsewhere, a person gets it by a link."""

    def test_link(self):
        place = harness.Place()
        web = Web(place)
        try:
            self.show(web.tool)
            made = self.save(format="csv")
            path = made["link"].split(str(web.port), 1)[1]
            status, _, body = web.ask("GET", path, Authorization=None)
            self.assertEqual((200, b"name,n\na,3\nb,1\nc,2\n"), (status, body))
            modern = web.tool("dashboard_event", modern=True, dashboard=self.board, event={"type": "export", "id": self.ids["Notes"]})
            self.assertIn(f"127.0.0.1:{web.port}/outputs/o-", modern["structuredContent"]["export"]["link"])
            # to a host that reads resources, the link comes with them
            read = json.loads(web.legacy("resources/read", {"uri": made["uri"]})[2])["result"]["contents"][0]
            self.assertIn("/outputs/o-", read["_meta"]["scb/link"])
        finally:
            place.scb("sessions", "close", "--all")
            web.end()
            place.end()


if __name__ == "__main__":
    harness.main()
