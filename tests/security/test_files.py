#!/usr/bin/python3
"""Attacks on files and on what is presented: links, races, kinds of files, names, archives, mounts."""
import hashlib
import os
import subprocess
import sys
import time
import unittest

import attack
import harness
from harness import only

MIB = 1 << 20
INSIDE, OUTSIDE = "inside" * 4, "OUTSIDE-7d1c"


class Races(attack.Attack):
    """Code swaps what the broker asks for with a link that leads out, as fast as it can."""

    def setUp(self):
        super().setUp()
        self.s = self.open()
        # Outside the workspace, where code of the sandbox may read and write all the same: so whatever
        # comes from there, or goes there, did so because the agent was led.
        if harness.PROVIDER == "bubblewrap":
            self.outside = "/tmp/outside"
        else:
            self.outside = os.path.join("/tmp", f"scb-outside-{os.getpid()}-{id(self)}")
            self.addCleanup(lambda: os.path.isdir(self.outside) and harness.shutil.rmtree(self.outside))
        r = self.sh(f"umask 0; mkdir -p {self.outside}; echo {OUTSIDE} >{self.outside}/f; mkdir d; echo {INSIDE} >f; echo {INSIDE} >d/f; "
                    f"ln -s {self.outside}/f flink; ln -s {self.outside} dlink", session=self.s)
        self.assertDone(r)

    def untouched(self):
        r = self.sh(f"cat {self.outside}/f; ls -A {self.outside}", session=self.s)
        self.assertEqual(f"{OUTSIDE}\nf\n", r.stdout)

    def rounds(self, path, seconds):
        """Reads, presents, writes and deletes for so long; how many of each were done and refused."""
        done = refused = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for tool, more in (("files", {"action": "read"}), ("present_output", {}),
                               ("files", {"action": "write", "content": INSIDE}),
                               ("files", {"action": "write", "content": INSIDE, "offset": 0}),
                               ("files", {"action": "write", "content": "\n", "append": True}),
                               ("files", {"action": "edit", "old_text": OUTSIDE, "new_text": "edited"}),
                               ("files", {"action": "search", "pattern": OUTSIDE}),
                               ("files", {"action": "stat"})):
                r = self.client.tool(tool, path=path, session=self.s, **more)
                self.assertNotIn(OUTSIDE, str(r.result).replace(f'"pattern": "{OUTSIDE}"', ""), (tool, more))
                if r.is_error:
                    refused += 1
                    continue
                done += 1
                if tool == "present_output":
                    with open(r.path, "rb") as f:
                        data = f.read()
                    self.assertNotIn(OUTSIDE.encode(), data)
                    self.assertEqual((hashlib.sha256(data).hexdigest(), len(data)), (r.sha256, r.bytes))
        return done, refused

    def attacked(self, a, b, path):
        seen = self.seen()
        job = self.swapping(a, b, 3, self.s)
        done, refused = self.rounds(path, 2)
        swaps = self.client.tool("job", action="wait", job=job, wait_s=20)
        self.assertGreater(int(swaps.stdout.split()[-1]), 1000, str(swaps))
        self.assertGreater(min(done, refused), 0, (done, refused))
        self.untouched()
        self.audited("file.refused", seen, path=path)
        self.audited("tool.end", seen, tool="files")

    def test_file(self):
        """the file is swapped with a link: nothing outside is read, written or presented"""
        self.attacked("f", "flink", "f")

    def test_folder(self):
        """its folder is swapped with a link to another one: the same"""
        self.attacked("d", "dlink", "d/f")

    def test_two_files(self):
        """two files are swapped while one is presented: what is presented is one of them, whole, with its hash"""
        r = self.py("for c in 'ab': open(c, 'w').write(c * 3_000_000)", session=self.s)
        self.assertDone(r)
        whole = {hashlib.sha256(c * 3_000_000).hexdigest() for c in (b"a", b"b")}
        job = self.swapping("a", "b", 3, self.s)
        end, n, refused = time.monotonic() + 2, 0, 0
        while time.monotonic() < end and n < 40:
            r = self.client.tool("present_output", path="a", session=self.s)
            refused += r.is_error
            if r.is_error:
                self.assertRefused(r, "chang")
                continue
            n += 1
            with open(r.path, "rb") as f:
                self.assertEqual(r.sha256, hashlib.sha256(f.read()).hexdigest())
            self.assertIn(r.sha256, whole)
        self.client.tool("job", action="signal", job=job, signal="KILL")
        self.assertGreater(n + refused, 0)

    def test_workspace_itself(self):
        """the workspace cannot be put aside for another folder"""
        r = self.py("""import os
here = os.getcwd()
for change in (lambda: os.rename(here, here + '-away'), lambda: os.rename(here, '/tmp/away'), lambda: os.rmdir(here),
               lambda: os.symlink('/etc', here), lambda: os.rename('/tmp', here)):
    try:
        change()
    except OSError:
        pass
""", session=self.s)
        self.assertDone(r)
        r = self.files("read", path="f", session=self.s)
        self.assertEqual(INSIDE + "\n", r.data["text"])


class Kinds(attack.Attack):
    """What is no plain file of the workspace is not presented."""

    def refused(self, path, *words, session=None):
        seen = self.seen()
        arguments = {"session": session} if session else {}
        began = time.monotonic()
        r = self.client.tool("present_output", path=path, **arguments)
        self.assertRefused(r, *words)
        self.assertLess(time.monotonic() - began, 5)
        e = self.audited("file.refused", seen, path=path)[0]
        self.assertNotIn("sha256", e)
        outputs = os.path.join(self.place.home, "scb-outputs")
        self.assertEqual([], [n for w, _, ns in os.walk(outputs) for n in ns if path.split("/")[-1] == n])

    def test_kinds(self):
        """links, FIFO, socket, folder, set-id programs: each refused, with its event"""
        r = self.sh("ln -s /etc/passwd link; mkdir folder; ln -s folder into; echo x >folder/f; mkfifo fifo; echo x >setuid; chmod 4755 setuid; "
                    "echo x >setgid; chmod 2755 setgid; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'")
        self.assertDone(r)
        for path, word in (("link", "link"), ("into/f", "link"), ("folder", ("directory", "folder")), ("fifo", "fifo"),
                           ("sock", "socket"), ("setuid", "set-id"), ("setgid", "set-id")):
            with self.subTest(path=path):
                self.refused(path, word)

    def test_magic_links(self):
        """the links of /proc and descriptors lead nowhere"""
        self.assertDone(self.sh("ln -s /proc/self/fd/0 fd; ln -s /proc/self/environ environ; ln -s /proc/self/root root; ln -s /proc/1/cwd cwd; "
                                "ln -s /dev/fd/0 dev; ln -s /proc/self/exe exe"))
        for path in ("fd", "environ", "root/etc/passwd", "cwd/x", "dev", "exe"):
            with self.subTest(path=path):
                self.refused(path, ("link", "no such"))
                r = self.files("read", path=path)
                self.assertTrue(r.is_error, str(r))

    def test_devices(self):
        """a device node cannot be made, nor one of the host be presented"""
        r = self.sh("mknod disk b 8 0; mknod null c 1 3; mknod zero c 0 0; ls -A | grep -E 'disk|null|zero'")
        self.assertEqual("", (r.stdout or "").replace("zero\n", ""), str(r))  # 0:0 is a whiteout: no device
        for path in ("/dev/zero", "/dev/null", "/dev/stdin", "/proc/kcore"):
            with self.subTest(path=path):
                self.refused(path)

    def test_sparse(self):
        """a terabyte of holes is refused at once, without a byte on the host"""
        self.assertDone(self.sh("truncate -s 1T huge"))
        before = os.statvfs(self.place.home).f_bfree
        self.refused("huge", "one file may have 268 MB")
        r = self.files("read", path="huge", offset=1 << 39, length=1000)
        self.assertLess(len(str(r)), 100_000)
        self.assertLess((before - os.statvfs(self.place.home).f_bfree) * 4096, 200 * MIB)
        self.sh("rm huge")

    def test_written_to(self):
        """a file that is written to, cut, or changed in place while it is copied is refused"""
        s = self.open()
        for change in ("echo more >>f", "truncate -s 1000000 f; truncate -s 60000000 f", "printf x | dd of=f conv=notrunc bs=1 seek=59999999 status=none"):
            with self.subTest(change=change):
                self.assertDone(self.sh("head -c 60000000 /dev/zero >f", session=s))
                job = self.sh(f"end=$(($(date +%s) + 8)); while [ $(date +%s) -lt $end ]; do {change}; done", session=s, wait_s=0)
                self.assertTrue(harness.until(
                    lambda: self.client.tool("present_output", path="f", session=s).is_error, 6, 0), "never refused")
                self.client.tool("job", action="signal", job=job.job, signal="KILL")
        self.audited("file.refused", path="f", session=s)

    @only("bubblewrap")
    def test_hard_links(self):
        """no file of the host can be linked into the workspace"""
        r = self.sh("for f in /usr/bin/env /etc/passwd /.scb/scb-agent /proc/self/exe /dev/null; do ln $f linked && echo linked $f; ln -L $f l2 && echo linked $f; done; true")
        self.assertEqual("", r.stdout or "", str(r))

    def test_hard_link_within(self):
        """a file with two names is presented as itself: what is on the host is a copy"""
        self.assertDone(self.sh("echo one >a; ln a b"))
        r = self.client.tool("present_output", path="b")
        self.assertFalse(r.is_error, r.text)
        self.sh("echo two >a")
        with open(r.path) as f:
            self.assertEqual("one\n", f.read())
        self.assertEqual(1, os.stat(r.path).st_nlink)
        self.audited("file.present", path="b", sha256=r.sha256)


class Names(attack.Attack):
    """Names are carried exactly or refused in words, and nothing takes them for anything else."""

    KEPT = ["a b", "--help", "-rf", "$(touch pwned)", "`touch pwned`", ";touch pwned;", "a'b\"c", "%00", "%2e%2e%2f", "é", "e\u0301",
            "Case", "case", "CON", "aux.txt", "dot.", " lead", "*", "?", "~root", "a\\b", "x" * 255, "é" * 127, "&lt;b&gt;",
            "<script>", "\u202etxt.exe", "\ufeffbom", "\U0001f600", "...", "con.", ".hidden"]
    REFUSED = ["a\nb", "a\rb", "a\0b", "\x1b[2J", "x" * 256, "a/../b", "..", "../x", "\x7f"]

    def test_round_trip(self):
        """write, list, read, move and delete by hostile names: exact, or a clear refusal; twins stay two"""
        s = self.open()
        for name in self.KEPT:
            with self.subTest(name=name):
                self.put(name, "is " + name, session=s)
        for name in self.KEPT:
            with self.subTest(name=name):
                self.assertEqual("is " + name, self.files("read", path=name, session=s).data["text"])
        listed = [e["path"] for e in self.files("list", path=".", session=s).entries]
        self.assertEqual(sorted(self.KEPT), sorted(listed))
        for name in self.REFUSED:
            with self.subTest(name=name):
                for action, more in (("write", {"content": "x"}), ("read", {}), ("stat", {}), ("delete", {}), ("mkdir", {})):
                    r = self.files(action, path=name, session=s, **more)
                    self.assertRefused(r)
                    self.assertNotRegex(r.text, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        for name in self.KEPT:
            self.assertFalse(self.files("move", path=name, target="moved/" + name, session=s).is_error, name)
            self.assertFalse(self.files("delete", path="moved/" + name, session=s).is_error, name)
        left = self.sh("find . -mindepth 1 -not -name moved", session=s)
        self.assertEqual("", left.stdout or "")

    def test_unreadable_names(self):
        """names that are no UTF-8 or hold line ends are listed harmlessly, and are not presented"""
        r = self.py(r"for n in (b'bad\xff', b'a\nb', b'\x1b[2Jx', b'\xed\xa0\x80'): open(n, 'w').write('x')" + "\nNone")
        self.assertDone(r)
        listed = self.files("list", path=".")
        self.assertFalse(listed.is_error, listed.text)
        for e in listed.entries:
            self.assertNotRegex(e["path"], "[\x00-\x1f\x7f-\x9f]")
            if "\ufffd" in e["path"]:
                self.assertTrue(self.client.tool("present_output", path=e["path"]).is_error)

    def test_presented(self):
        """what the person's system could take for something else is not presented under its name"""
        bad = ["-rf", ".hidden", "CON", "aux.txt", "LPT1.md", "dot.", " lead", "trail ", "a<b", "a:b", "a|b", "a\\b", "\u202etxt.exe", "\u2066x", "\ufeffx", "a\u2028b"]
        for name in bad:
            self.put(name, "x")
        for name in bad:
            with self.subTest(name=name):
                seen = self.seen()
                self.assertRefused(self.client.tool("present_output", path=name), "cannot be presented")
                self.audited("file.refused", seen, path=name)
        good = ["$(touch pwned)", "`id`", "a;b", "a'b", "%2e%2e%2fx", "é", "e\u0301", "x" * 251 + ".txt", "a&b#c", "a b.csv"]
        for name in good:
            self.put(name, name)
        uris = set()
        for name in good:
            with self.subTest(name=name):
                r = self.client.tool("present_output", path=name)
                self.assertFalse(r.is_error, r.text)
                self.assertEqual(name, os.path.basename(r.path))
                self.assertRegex(r.uri, r"\Aresource://scb/o-[0-9a-f]{32}/[A-Za-z0-9%._~-]+\Z")
                uris.add(r.uri)
                content = self.client.request("resources/read", {"uri": r.uri}).result(5)["contents"][0]
                self.assertEqual(name, content["text"])
        self.assertEqual(len(good), len(uris))
        self.assertFalse(os.path.exists(os.path.join(self.place.home, "pwned")))

    def test_uris(self):
        """a URI of a presented file that was tampered with is unknown"""
        self.put("u.txt", "u")
        r = self.client.tool("present_output", path="u.txt")
        head, name = r.uri.rsplit("/", 1)
        for uri in (head, head + "/", head + "/other", head + "/u.txt/", head + "/../u.txt", head + "/%75.txt", head.upper() + "/u.txt",
                    r.uri + "#x", r.uri + "%00", r.uri[:-1], head[:-1] + "/u.txt", "resource://scb/o-" + "0" * 32 + "/u.txt"):
            with self.subTest(uri=uri):
                self.client.request("resources/read", {"uri": uri}).error(5)
        for query in ("?offset=-1", "?offset=99999999999999999999", "?offset=0x1", "?length=1e3", "?x=1", "?offset=1&offset"):
            with self.subTest(query=query):
                self.client.request("resources/read", {"uri": r.uri + query}).error(5)


class Archives(attack.Attack):
    """Nothing of scb unpacks anything: an archive is a file, and what code unpacks stays inside."""

    MAKE = r"""
import io, tarfile, zipfile
with tarfile.open('evil.tar', 'w') as t:
    def add(name, kind=tarfile.REGTYPE, link='', data=b'pwned'):
        i = tarfile.TarInfo(name); i.type = kind; i.linkname = link; i.size = len(data) if kind == tarfile.REGTYPE else 0; i.mode = 0o4777
        i.pax_headers = {'path': name} if kind == tarfile.REGTYPE else {}
        t.addfile(i, io.BytesIO(data) if kind == tarfile.REGTYPE else None)
    add('../../../../../../HOSTDIR/traversal')
    add('HOSTDIR/absolute')
    add('out', tarfile.SYMTYPE, 'HOSTDIR'); add('out/through')
    add('etc', tarfile.SYMTYPE, '/etc'); add('etc/through')
    add('hard', tarfile.LNKTYPE, '/etc/passwd')
    add('dup'); add('dup')
    add('null', tarfile.CHRTYPE); add('disk', tarfile.BLKTYPE); add('fifo', tarfile.FIFOTYPE)
with zipfile.ZipFile('evil.zip', 'w') as z:
    for name in ('../../../../HOSTDIR/zip', 'HOSTDIR/zipabs', 'dup', 'dup'):
        z.writestr(name, 'pwned')
    z.writestr('bomb', bytes(20_000_000), zipfile.ZIP_DEFLATED)
"""

    @only("bubblewrap")
    def test_unpacked_inside(self):
        """unpacked without any care by code in the sandbox: nothing of the host is written"""
        self.place.folder("target")
        target = os.path.join(self.place.top, "target")
        os.chmod(target, 0o777)
        self.put("make.py", self.MAKE.replace("HOSTDIR", target))
        r = self.sh("python3 -W ignore make.py; tar -xPf evil.tar; cd /tmp; tar -xPf /workspace/evil.tar; python3 -c 'import zipfile; zipfile.ZipFile(\"/workspace/evil.zip\").extractall(\"/\")'; true")
        self.assertDone(r)
        self.assertEqual([], os.listdir(target))
        self.assertFalse(os.path.exists("/etc/through"))
        self.assertEqual(r.session, self.sh("true").session)

    def test_presented_as_it_is(self):
        """a hostile archive is presented byte for byte, and nothing is unpacked for it"""
        self.put("make.py", self.MAKE.replace("HOSTDIR", "/nowhere"))
        self.assertDone(self.sh("python3 -W ignore make.py"))
        for name in ("evil.tar", "evil.zip"):
            r = self.client.tool("present_output", path=name)
            self.assertFalse(r.is_error, r.text)
            self.assertEqual(sorted([name, ".scb-meta.json"]), sorted(os.listdir(os.path.dirname(r.path))))
            said = self.sh(f"sha256sum {name}").stdout.split()[0]
            self.assertEqual(said, r.sha256)
            self.audited("file.present", path=name, sha256=said)

    @only("bubblewrap")
    def test_many_entries(self):
        """a folder of 50,000 files: bounded answers, and the broker does not grow"""
        s = self.open()
        self.assertDone(self.py("import os\nos.mkdir('many')\nfor i in range(50_000): os.close(os.open(f'many/{i}', os.O_CREAT))\nNone", session=s))
        before = self.client.rss()
        r = self.files("list", path="many", session=s)
        self.assertLessEqual(len(r.entries), 1000)
        self.assertTrue(r.more)
        r = self.files("search", path="many", name="*", session=s)
        self.assertFalse(r.is_error, r.text)
        self.assertLess(self.client.rss() - before, 16 * MIB)


class Mounts(unittest.TestCase):
    def test_prefixes(self):
        """a mount's name, case and neighbours: only what is mounted is reached"""
        place = harness.Place()
        for name in ("work", "work-evil"):
            folder = place.folder(name)
            os.chmod(folder, 0o755)
            place.file(os.path.join(folder, "f"), (OUTSIDE if "evil" in name else INSIDE).encode())
        os.symlink("../work-evil", os.path.join(place.top, "work", "up"))
        os.symlink(os.path.join(place.top, "work-evil"), os.path.join(place.top, "work", "abs"))
        client = place.serve("--mount", "work=" + os.path.join(place.top, "work"))
        try:
            client.initialize()
            self.assertEqual(INSIDE, client.tool("files", action="read", path="/mnt/work/f").data["text"])
            for path in ("/mnt/work-evil/f", "/mnt/workx/f", "/mnt/wor/f", "/mnt/WORK/f", "/mnt/work/../work-evil/f", "/mnt/work/up/f",
                         "/mnt/work/abs/f", "/workspace-evil/f", "/workspacex", "/Workspace/f", "/mnt/../" + place.top + "/work-evil/f",
                         "/proc/self/root" + place.top + "/work-evil/f", "/mnt//..//f", place.top + "/work-evil/f", "/mntx/work/f",
                         "//mnt/work-evil/f", "/mnt/work\u200b/f", "/mnt/./work-evil/f"):
                with self.subTest(path=path):
                    for action in ("read", "stat", "list"):
                        r = client.tool("files", action=action, path=path)
                        self.assertTrue(r.is_error, str(r))
                        self.assertNotIn(OUTSIDE, str(r))
                    self.assertTrue(client.tool("present_output", path=path).is_error)
            self.assertTrue([e for e in place.audit() if e["event"] == "tool.end" and e["tool"] == "files" and "detail" in e])
        finally:
            client.close()
        self.assertEqual([], client.faults)

    def test_own_files(self):
        """a folder with scb's state or keys in it, above it or below it, is not mounted"""
        place = harness.Place()
        place.serve("--solo").close()  # makes them
        state = os.path.join(place.state, "scb")
        link = os.path.join(place.top, "link")
        os.symlink(place.home, link)
        elsewhere = place.folder("elsewhere")
        for folder, arguments in ((place.home, []), (place.state, []), (state, []), (os.path.join(state, "store"), []), (place.top, []), ("/", []),
                                  (link, []), (os.path.join(place.home, ".config"), []), (elsewhere, ["--state", os.path.join(elsewhere, "s")])):
            for more in ([], ["--solo"]):
                with self.subTest(folder=folder, more=more):
                    if not os.path.isdir(folder):
                        os.makedirs(folder)
                        os.chown(folder, place.uid, place.uid)
                    done = place.scb("serve", "--mount", "m=" + folder, *arguments, *more)
                    self.assertEqual((64, ""), (done.returncode, done.stdout), done.stderr)
                    self.assertIn("scb's own files", done.stderr)
        good = place.folder("home", "state-of-mine")
        os.chmod(good, 0o755)
        self.assertEqual(0, place.scb("serve", "--solo", "--mount", "m=" + good).returncode)

    def test_swapped(self):
        """a mounted folder in whose place a link was put later is not followed, however fast it is swapped"""
        place = harness.Place()
        for name, text in (("shared/data", INSIDE), ("private", OUTSIDE)):
            folder = place.folder("home", *name.split("/"))  # in a home that only its owner may enter
            os.chmod(folder, 0o755)
            place.file(os.path.join(folder, "f"), text.encode())
        data, link = (os.path.join(place.home, "shared", n) for n in ("data", "link"))
        os.symlink(os.path.join(place.home, "private"), link)
        client = place.serve("--mount", "m=" + data)

        def once():
            r = client.tool("session", action="open")
            if r.is_error:
                return r
            read = client.tool("files", action="read", path="/mnt/m/f", session=r.session)
            self.assertNotIn(OUTSIDE, str(read))
            client.tool("session", action="close", session=r.session)
            return read
        try:
            client.initialize()
            self.assertFalse(once().is_error)
            swapper = subprocess.Popen([sys.executable, "-c", attack.SWAP, data, link, "60"], stdout=subprocess.DEVNULL)
            try:
                # An ordinary user's bubblewrap looks at the path once more: docs/threat-model.md.
                tries = [once() for _ in range(20)] if harness.MODE == "root" else []
            finally:
                swapper.kill()
                swapper.wait()
            self.assertTrue(any(r.is_error for r in tries) or not tries)
            if os.path.islink(link):
                os.rename(data, data + "-old")
                os.rename(link, data)
            r = once()
            self.assertTrue(r.is_error, str(r))
            self.assertIn("leads through a link", r.text)
        finally:
            client.close()
        self.assertEqual([], client.faults)


if __name__ == "__main__":
    harness.main()
