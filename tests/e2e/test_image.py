#!/usr/bin/python3
"""`scb image` and --image: what is unpacked, found again, told to be changed, and refused. What runs in a real
image is in tests/image."""
import hashlib
import io
import json
import os
import tarfile
import unittest

import harness


def archive(path, *entries):
    """A tar of (name, data), a folder where data is None, a link where it begins with "->"."""
    with tarfile.open(path, "w") as tar:
        for name, data in entries:
            member = tarfile.TarInfo(name)
            member.mode = 0o755
            if data is None:
                member.type = tarfile.DIRTYPE
            elif data.startswith("->"):
                member.type, member.linkname = tarfile.SYMTYPE, data[2:]
            else:
                member.size = len(data)
            tar.addfile(member, io.BytesIO(data.encode()) if member.size else None)


SYSTEM = (("./", None), ("./usr/", None), ("./usr/bin/", None), ("./usr/bin/true", "#!/bin/sh\n"), ("./bin", "->usr/bin"),
          ("./etc/", None), ("./etc/passwd", "root:x:0:0::/:/bin/sh\n"))


class Images(unittest.TestCase):
    def setUp(self):
        self.place = harness.Place()
        self.tar = os.path.join(self.place.folder("home"), "tiny.tar")
        archive(self.tar, *SYSTEM)
        os.chmod(self.tar, 0o644)
        self.images = os.path.join(self.place.home, ".local/share/scb/images")

    def image(self, status, *arguments, **env):
        done = self.place.scb("image", *arguments, **env)
        self.assertEqual(status, done.returncode, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_import_list_verify(self):
        """an archive is unpacked under its SHA-256, listed, found by name or digits, and told from a changed one"""
        with open(self.tar, "rb") as f:
            full = "tiny@" + hashlib.sha256(f.read()).hexdigest()
        self.assertIn("tiny.tar has no manifest", self.image(66, "verify", self.tar))
        self.assertIn(full, self.image(0, "import", self.tar))
        self.assertIn(full, self.image(0, "import", self.tar))  # once more: it stays
        self.assertEqual(full + "\n", self.image(0, "list"))
        for name in ("tiny", full[:5 + 12], full):
            self.assertIn("as the manifest says", self.image(0, "verify", name))
        self.image(66, "verify", full[:5 + 11])
        self.image(66, "verify", "tiny@" + "0" * 64)
        self.assertIn(full.replace("tiny", "other"), self.image(0, "import", self.tar, "--name", "other"))
        program = os.path.join(self.images, full, "root/usr/bin/true")
        with open(program, "a") as f:
            f.write("echo more\n")
        self.place.file(os.path.join(self.images, full, "root/usr/bin/new"), b"")
        said = self.image(65, "verify", "tiny")
        self.assertIn("usr/bin/true", said)
        self.assertIn("usr/bin/new", said)
        self.assertIn("import the archive again", said)
        self.assertIn("as the manifest says", self.image(0, "verify", "other"))

    def test_manifest(self):
        """an archive that is not what its manifest says is not imported"""
        self.image(0, "import", self.tar)
        manifest = os.path.join(self.images, "tiny", "manifest.json")
        with open(manifest) as f:
            told = json.load(f)
        for e in told["entries"]:
            if e["path"] == "usr/bin/true":
                e["sha256"] = "0" * 64
        self.place.file(self.tar[:-4] + ".manifest.json", json.dumps(told).encode())
        self.assertIn("usr/bin/true", self.image(65, "import", self.tar, "--name", "changed"))
        self.assertEqual(1, len(self.image(0, "list").split()))

    def test_hostile(self):
        """an archive that leads elsewhere leaves nothing, neither here nor there"""
        for entries in ((("../out", "x"),), (("/out", "x"),), (("l", "->/tmp"), ("l/scb-out", "x"))):
            with self.subTest(entries=entries):
                archive(self.tar, *SYSTEM, *entries)
                self.image(77, "import", self.tar)
                self.assertEqual([], os.listdir(self.images))
        self.assertFalse(os.path.exists("/tmp/scb-out"))

    def test_what_is_not_there(self):
        """no such image, none at all, a provider that has none, another user's folder: each with its reason"""
        self.assertIn("scb image build", self.image(66, "verify", "nothing"))
        self.assertEqual("", self.image(0, "list"))
        self.image(0, "import", self.tar)
        self.assertIn("scb image list", self.image(66, "verify", "nothing"))
        for status, words, arguments, env in (
                (66, "no image \"nothing\"", ("--image", "nothing"), {}),
                (66, "no image \"nothing\"", (), {"BROKER_IMAGE": "nothing"}),
                (None, "local", ("--image", "tiny", "--provider", "local"), {})):
            with self.subTest(arguments=arguments):
                done = self.place.scb("run", *arguments, "-c", "1", **env)
                self.assertIn(words, done.stderr)
                self.assertNotEqual(0, done.returncode)
                self.assertIn(status, (None, done.returncode))
        os.chmod(self.images, 0o777)
        self.assertIn("not this user's alone", self.place.scb("run", "--image", "tiny", "-c", "1").stderr)

    def test_builder(self):
        """`scb image build` runs the builder, whose words and status are its own"""
        self.assertIn("no such group: nonsense", self.image(1, "build", "--group", "nonsense"))
        self.assertIn("cannot be run", self.image(66, "build", SCB_IMAGE_BUILDER="/nowhere"))


if __name__ == "__main__":
    harness.main()
