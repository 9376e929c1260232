#!/usr/bin/python3
"""`scb serve --http` with TLS."""
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import unittest
import warnings

import harness
from harness import Place
from web import Web


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class Tls(unittest.TestCase):
    """TLS with OpenSSL, and clients that have their own"""

    @classmethod
    def setUpClass(cls):
        cls.place = Place()
        cls.cert, cls.key = (os.path.join(cls.place.home, name) for name in ("cert.pem", "key.pem"))
        cls.certificate(cls.cert, cls.key)
        cls.web = Web(cls.place, "--tls-cert", cls.cert, "--tls-key", cls.key)
        assert cls.web.port, cls.web.words()

    @classmethod
    def tearDownClass(cls):
        cls.place.scb("sessions", "close", "--all")
        cls.web.end()

    @classmethod
    def certificate(cls, cert, key):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", key + ".new",
                        "-out", cert + ".new"], check=True, capture_output=True)
        for path in (key, cert):
            os.chmod(path + ".new", 0o600)
            os.chown(path + ".new", cls.place.uid, -1)
            os.rename(path + ".new", path)

    def context(self, **more):
        c = ssl.create_default_context(cafile=self.cert)
        for name, value in more.items():
            setattr(c, name, value)
        return c

    def ping(self, context):
        c = http.client.HTTPSConnection("127.0.0.1", self.web.port, timeout=30, context=context)
        status = self.web.legacy("ping", connection=c)[0]
        version, protocol, cert = c.sock.version(), c.sock.selected_alpn_protocol(), c.sock.getpeercert(True)
        c.close()
        return status, version, protocol, cert

    def test_python(self):
        """both versions, ALPN, large messages and files; older versions and other protocols not"""
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.assertEqual((200, version.name.replace("_", ".")), self.ping(self.context(maximum_version=version))[:2])
        with_alpn = self.context()
        with_alpn.set_alpn_protocols(["h2", "http/1.1"])
        self.assertEqual("http/1.1", self.ping(with_alpn)[2])
        other = self.context()
        other.set_alpn_protocols(["h2"])
        with self.assertRaises(ssl.SSLError):
            self.ping(other)
        old = self.context()
        old.set_ciphers("DEFAULT@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.ping(old)
        c = http.client.HTTPSConnection("127.0.0.1", self.web.port, timeout=60, context=self.context())
        for _ in range(20):
            self.assertEqual(200, self.web.legacy("ping", connection=c)[0])
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "x" * (9 << 20)}}
        self.assertEqual(200, self.web.ask(body=message, connection=c)[0])

        def tool(name, **arguments):
            done = self.web.legacy("tools/call", {"name": name, "arguments": arguments}, connection=c)
            return json.loads(done[2])["result"]["structuredContent"]

        handle = tool("session", action="open")["session"]
        tool("run_command", command="head -c 5000001 /dev/urandom > large.bin", session=handle)
        o = tool("present_output", path="large.bin", session=handle)
        self.assertTrue(o["link"].startswith(f"https://127.0.0.1:{self.web.port}/outputs/"), o)
        status, _, data = self.web.ask("GET", o["link"].split(str(self.web.port), 1)[1], connection=c, Authorization=None)
        self.assertEqual((200, o["sha256"]), (status, hashlib.sha256(data).hexdigest()))

    def test_curl(self):
        """curl, which says goodbye in its own way"""
        for more in ((), ("--tls-max", "1.2"), ("--http2",)):
            done = subprocess.run(["curl", "-sS", "--cacert", self.cert, *more, f"https://127.0.0.1:{self.web.port}/healthz",
                                   f"https://localhost:{self.web.port}/healthz"], capture_output=True, text=True, timeout=60)
            self.assertEqual((0, "ok\nok\n"), (done.returncode, done.stdout), done.stderr)
        done = subprocess.run(["curl", "-sS", f"https://127.0.0.1:{self.web.port}/healthz"], capture_output=True, timeout=60)
        self.assertEqual(60, done.returncode)

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_node(self):
        """node's client"""
        code = f"""require("https").get({{host: "127.0.0.1", port: {self.web.port}, path: "/healthz",
            ca: require("fs").readFileSync({json.dumps(self.cert)})}}, r => r.on("data", d => process.stdout.write(d)))"""
        done = subprocess.run(["node", "-e", code], capture_output=True, text=True, timeout=60)
        self.assertEqual("ok\n", done.stdout, done.stderr)

    def closed(self, data):
        """What comes back until the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.web.port), 30) as s:
            s.settimeout(30 * harness.SLOW)
            got = b""
            try:
                s.sendall(data)
                while more := s.recv(65536):
                    got += more
            except ConnectionResetError:
                pass
            return got

    def test_no_tls(self):
        """plain HTTP is told so; garbage, and a handshake that does not go on, are cut off"""
        self.assertIn(b"https", self.closed(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        for data in (b"\0" * 100, os.urandom(1000), b"\x16\x03\x01\xff\xff" + b"x" * 100, b"SSH-2.0-x\r\n"):
            self.assertNotIn(b"HTTP", self.closed(data))
        began = time.monotonic()
        self.closed(b"\x16\x03\x01\x02\x00\x01")
        self.assertLess(time.monotonic() - began, 20 * harness.SLOW)
        self.assertGreater(time.monotonic() - began, 8)
        self.assertEqual(200, self.ping(self.context())[0])

    def test_reload(self):
        """SIGHUP: another certificate for new connections; a broken one changes nothing; who is connected stays so"""
        before = self.ping(self.context())[3]
        c = http.client.HTTPSConnection("127.0.0.1", self.web.port, timeout=30, context=self.context())
        self.assertEqual(200, self.web.legacy("ping", connection=c)[0])
        self.certificate(self.cert, self.key)
        os.kill(self.web.process.pid, signal.SIGHUP)
        self.assertTrue(harness.until(lambda: self.served() != before, 20))
        after = self.served()
        self.assertEqual(200, self.web.legacy("ping", connection=c)[0])
        with open(self.cert, "ab") as f:
            f.truncate(100)
        os.kill(self.web.process.pid, signal.SIGHUP)
        self.assertTrue(harness.until(lambda: "the certificate stays as it was" in self.web.words(), 20), self.web.words())
        self.assertEqual(after, self.served())
        self.certificate(self.cert, self.key)
        os.kill(self.web.process.pid, signal.SIGHUP)
        self.assertTrue(harness.until(lambda: self.served() != after, 20))

    def served(self):
        """The certificate that is served, whatever it is worth."""
        c = ssl.create_default_context()
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
        return self.ping(c)[3]

    def test_options(self):
        """a key that others can read, one of another certificate, none at all"""
        other = os.path.join(self.place.home, "other")
        self.certificate(other + ".pem", other + ".key")
        readable = self.place.file(other + ".open", open(self.key, "rb").read())
        os.chmod(readable, 0o644)
        for arguments, words in ((("--tls-cert", self.cert), "--tls-key"), (("--tls-cert", self.cert, "--tls-key", readable), "chmod 600"),
                                 (("--tls-cert", self.cert, "--tls-key", other + ".key"), "key"),
                                 (("--tls-cert", "/nothing", "--tls-key", self.key), "/nothing")):
            done = self.place.scb("serve", "--http", "127.0.0.1:0", "--state", os.path.join(self.place.home, "s2"), *arguments)
            self.assertNotEqual(0, done.returncode)
            self.assertIn(words, done.stderr)

    def test_lazy(self):
        """a broker without TLS does not load its library"""
        place = Place()
        web = Web(place)
        try:
            for w, there in ((web, False), (self.web, True)):
                with open(f"/proc/{w.process.pid}/maps") as f:
                    self.assertEqual(there, "libssl" in f.read())
        except PermissionError:
            self.skipTest("root alone is shown this of a process that is not dumpable")
        finally:
            web.end()


if __name__ == "__main__":
    harness.main()
