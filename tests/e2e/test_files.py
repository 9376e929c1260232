#!/usr/bin/python3
"""Files: the workspace, mounts, and presenting as the only way out."""
import base64
import hashlib
import os
import socket
import time
import unittest

import harness
from harness import Case, only

MIB = 1 << 20


class Workspace(Case):
    def files(self, action, **arguments):
        r = self.client.tool("files", action=action, **arguments)
        self.assertFalse(r.is_error, r.text)
        return r

    def test_write_read(self):
        """text is written, appended, written at an offset, edited, read in part"""
        self.files("write", path="notes/a.txt", content="one\ntwo\n")
        self.files("write", path="notes/a.txt", content="three\n", append=True)
        self.files("write", path="notes/a.txt", content="TWO", offset=4)
        r = self.files("read", path="notes/a.txt")
        self.assertEqual("one\nTWO\nthree\n", r.data["text"])
        self.assertEqual("TWO", self.files("read", path="notes/a.txt", offset=4, length=3).data["text"])
        self.files("edit", path="notes/a.txt", old_text="three", new_text="drei")
        self.assertEqual("one\nTWO\ndrei\n", self.sh("cat notes/a.txt").stdout)

    def test_list_search_move_delete(self):
        """list, stat, search, move, mkdir, delete"""
        self.files("write", path="tree/x/one.csv", content="a,b\n1,needle\n")
        self.files("mkdir", path="tree/empty")
        names = {e["path"] for e in self.files("list", path="tree", depth=3).entries}
        self.assertTrue({"tree/x", "tree/x/one.csv", "tree/empty"} <= names, names)
        self.assertEqual(13, self.files("stat", path="tree/x/one.csv").data["bytes"])
        hit = self.files("search", path="tree", pattern="needle").entries[0]
        self.assertEqual(("tree/x/one.csv", 2), (hit["path"], hit["line"]))
        self.files("move", path="tree/x/one.csv", target="tree/two.csv")
        self.assertRefusedFile("read", "tree/x/one.csv")
        self.files("delete", path="tree", recursive=True)
        self.assertRefusedFile("list", "tree")

    def assertRefusedFile(self, action, path):
        self.assertRefused(self.client.tool("files", action=action, path=path), path)

    def test_big_file_in_pieces(self):
        """50 MB written in pieces have the same hash in the sandbox"""
        s = self.open()
        digest, piece = hashlib.sha256(), MIB * 5
        for i in range(10):
            data = os.urandom(piece)
            digest.update(data)
            r = self.files("write", session=s, path="big.bin", content=base64.b64encode(data).decode(), encoding="base64",
                           append=i > 0)
            self.assertEqual((i + 1) * piece, r.data["totalBytes"])
        said = self.sh("sha256sum big.bin" if harness.PROVIDER == "local" else "sha256sum /workspace/big.bin", session=s)
        self.assertEqual(digest.hexdigest(), said.stdout.split()[0])

    def test_binary_read(self):
        """bytes come back exactly in base64"""
        self.py("open('bytes.bin','wb').write(bytes(range(256)) * 100)")
        r = self.files("read", path="bytes.bin", encoding="base64", length=25600)
        self.assertEqual(bytes(range(256)) * 100, base64.b64decode(r.data["data"]))


class Presented(Case):
    def refuse(self, path, *words):
        r = self.client.tool("present_output", path=path)
        self.assertRefused(r, *words)
        return r.text

    def test_present_and_read(self):
        """a presented file: hash, size, type, its place on the host, and its bytes by URI"""
        self.py("open('r é.csv','w').write('a,b\\n1,2\\n' * 1000)")
        r = self.client.tool("present_output", path="r é.csv", title="A report")
        self.assertFalse(r.is_error, r.text)
        data = b"a,b\n1,2\n" * 1000
        self.assertEqual((len(data), hashlib.sha256(data).hexdigest(), "text/csv", False),
                         (r.bytes, r.sha256, r.mimeType, bool(r.executable)))
        self.assertTrue(r.uri.startswith("resource://"))
        self.assertNotIn("1,2", r.text)
        with open(r.path, "rb") as f:
            self.assertEqual(data, f.read())
        self.assertEqual(0, os.stat(r.path).st_mode & 0o077)
        self.assertTrue(r.path.startswith(os.path.join(self.place.home, "scb-outputs")), r.path)
        listed = [x["uri"] for x in self.client.request("resources/list").result(5)["resources"]]
        self.assertIn(r.uri, listed)
        content = self.client.request("resources/read", {"uri": r.uri}).result(5)["contents"]
        self.assertEqual(data.decode(), content[0]["text"])
        self.assertEqual("text/csv", content[0]["mimeType"])

    def test_binary(self):
        """binary bytes come as a blob"""
        self.py("open('p.bin','wb').write(bytes(range(256)))")
        r = self.client.tool("present_output", path="p.bin")
        content = self.client.request("resources/read", {"uri": r.uri}).result(5)["contents"][0]
        self.assertEqual(bytes(range(256)), base64.b64decode(content["blob"]))

    def test_large_is_bounded(self):
        """a large file is never a message beyond 900 KB"""
        self.py("open('large.bin','wb').write(bytes(3_000_000))")
        r = self.client.tool("present_output", path="large.bin")
        self.assertFalse(r.is_error, r.text)
        self.client.request("resources/read", {"uri": r.uri}).wait(10)
        self.assertEqual([], self.client.faults)

    def test_executable_is_said(self):
        """what would run when opened is marked"""
        self.py("open('go.sh','w').write('#!/bin/sh\\necho hi\\n'); open('page.html','w').write('<script>1</script>')")
        for path in ("go.sh", "page.html"):
            self.assertIs(True, self.client.tool("present_output", path=path).executable, path)

    def test_refused(self):
        """paths out, links, a FIFO, a folder: each with its own reason"""
        self.sh("ln -sf /etc/passwd link; mkfifo fifo; mkdir -p folder; ln -sf fifo tofifo; touch plain; ln -sf plain inlink; "
                "python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.bind(\"sock\")'")
        reasons = {self.refuse("../etc/passwd"), self.refuse("link", "link"), self.refuse("fifo", "fifo"),
                   self.refuse("folder", ("directory", "folder")), self.refuse("missing", ("no such", "not found", "does not exist"))}
        self.assertEqual(5, len(reasons), reasons)
        self.refuse("/etc/passwd")
        self.refuse("/proc/self/environ")
        self.refuse("inlink", "link")
        self.refuse("sock", "socket")
        if os.path.exists("/dev/null"):
            self.refuse("/dev/null")
        self.assertNotIn("root:", " ".join(reasons))

    def test_growing(self):
        """a file that grows while it is read is refused"""
        s = self.open()
        self.sh("head -c 60000000 /dev/zero > grow; (while :; do echo more; done >> grow) >/dev/null 2>&1 &", session=s)
        r = self.client.tool("present_output", path="grow", session=s)
        self.assertRefused(r, "chang")

    def test_unknown_resource(self):
        """unknown and foreign URIs"""
        for uri in ("resource://scb/o-" + "0" * 32 + "/x", "resource://scb/", "file:///etc/passwd", "nonsense", ""):
            error = self.client.request("resources/read", {"uri": uri}).error(5)
            self.assertIn(error["code"], (-32002, -32602), uri)

    def test_outlives_the_session(self):
        """an output outlives its session"""
        s = self.client.tool("session", action="open").session
        self.client.tool("files", action="write", session=s, path="kept.txt", content="kept")
        r = self.client.tool("present_output", path="kept.txt", session=s)
        self.client.tool("session", action="close", session=s)
        content = self.client.request("resources/read", {"uri": r.uri}).result(5)["contents"][0]
        self.assertEqual("kept", content["text"])


class OutputsFolder(unittest.TestCase):
    def test_open_to_all(self):
        """an outputs folder in which others can write is not used, and the answer says what to do"""
        place = harness.Place()
        folder = place.folder("out")
        os.chmod(folder, 0o777)
        client = place.serve("--outputs", folder)
        try:
            client.initialize()
            client.tool("files", action="write", path="a.txt", content="a")
            r = client.tool("present_output", path="a.txt")
            self.assertTrue(r.is_error)
            self.assertIn("chmod go-w", r.text)
            self.assertEqual([], os.listdir(folder))
        finally:
            client.close()


class Mounts(unittest.TestCase):
    def test_mount(self):
        """a mounted folder is readable at /mnt/NAME, and only readable; links out of it lead nowhere"""
        place = harness.Place()
        folder = place.folder("home", "data")  # in a home that nobody else may enter
        os.chmod(folder, 0o755)
        place.file(os.path.join(folder, "x.csv"), b"a,b\n1,2\n")
        place.file(os.path.join(place.home, "private"), harness.CANARY.encode())
        os.symlink(os.path.join(place.home, "private"), os.path.join(folder, "out"))
        client = place.serve("--mount", f"sales={folder}")
        try:
            client.initialize()
            r = client.tool("files", action="read", path="/mnt/sales/x.csv")
            self.assertFalse(r.is_error, r.text)
            self.assertEqual("a,b\n1,2\n", r.data["text"])
            self.assertTrue(client.tool("files", action="write", path="/mnt/sales/y", content="x").is_error)
            self.assertTrue(client.tool("files", action="delete", path="/mnt/sales/x.csv").is_error)
            self.assertTrue(client.tool("files", action="read", path="/mnt/sales/out").is_error)
            for path, word in (("/mnt/typo/x", "no mount 'typo'; mounts: sales"), ("/home/me/x", "mounts: sales"),
                               ("a/../b.txt", '".." is not taken')):
                r = client.tool("files", action="read", path=path)
                self.assertTrue(r.is_error)
                self.assertIn(word, r.text)
            self.assertFalse(client.tool("files", action="stat", path="/mnt").is_error)
            r = client.tool("present_output", path="/mnt/sales/x.csv")
            self.assertTrue(r.is_error)
            self.assertIn("file_refused", r.text)
            self.assertIn("already on the person's machine, in the mounted folder 'sales'", r.text)
            if harness.PROVIDER == "bubblewrap":
                r = client.tool("run_command", command="cat /mnt/sales/x.csv; ls /mnt; cat /mnt/sales/out; echo x >/mnt/sales/x.csv; echo x >/mnt/sales/y")
                self.assertEqual("a,b\n1,2\nsales\n", r.stdout)
                self.assertNotIn(harness.CANARY, str(r))
            self.assertEqual(["out", "x.csv"], sorted(os.listdir(folder)))
        finally:
            client.close()
        self.assertEqual([], client.faults)

    @only("bubblewrap", because="only bubblewrap lays something between a mounted folder and code")
    def test_mount_is_no_way_out(self):
        """sockets and FIFOs of the host in a mounted folder lead nowhere"""
        place = harness.Place()
        folder = place.folder("open")
        os.chmod(folder, 0o755)
        with socket.socket(socket.AF_UNIX) as host:
            host.bind(os.path.join(folder, "s"))
            host.listen(5)
            os.mkfifo(os.path.join(folder, "p"))
            for name in ("s", "p"):
                os.chmod(os.path.join(folder, name), 0o666)
            pipe = os.open(os.path.join(folder, "p"), os.O_RDWR | os.O_NONBLOCK)
            os.write(pipe, harness.CANARY.encode())
            client = place.serve("--mount", f"m={folder}")
            try:
                client.initialize()
                code = """import os, socket
def connect(path):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(path)
        return "connected " + path
    except OSError:
        return "refused"
print(connect("/mnt/m/s"))
os.chdir("/mnt/m")
ways = ["s"] + [f"/proc/{p}/{d}/mnt/m/s" for p in os.listdir("/proc") if p.isdigit() for d in ("root", "cwd")]
print({connect(way) for way in ways})
try:
    print(os.read(os.open("p", os.O_RDONLY | os.O_NONBLOCK), 99))
except OSError as e:
    print(e)
"""
                r = client.tool("run_code", language="python", code=code)
                self.assertEqual("refused\n{'refused'}\nb''\n", r.stdout, str(r))
                r = client.tool("run_command", argv=["python3", "-c", code], cwd="/mnt/m")
                self.assertEqual("refused\n{'refused'}\nb''\n", r.stdout, str(r))
                host.setblocking(False)
                self.assertRaises(BlockingIOError, host.accept)
                self.assertEqual(harness.CANARY.encode(), os.read(pipe, 99))
            finally:
                client.close()
                os.close(pipe)
        self.assertEqual([], client.faults)

    @only("bubblewrap", because="elsewhere what is mounted within is no hindrance (with docker it is left out)")
    def test_mount_within(self):
        """a folder with another file system in it is refused, and the reason says where"""
        place = harness.Place()
        client = place.serve("--mount", "all=/dev")
        try:
            client.initialize()
            r = client.tool("run_command", command="true")
            self.assertTrue(r.is_error, str(r))
            self.assertIn("another file system", r.text)
        finally:
            client.close()


if __name__ == "__main__":
    harness.main()
