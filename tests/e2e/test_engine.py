#!/usr/bin/python3
"""A container engine that is broken or hostile: a peer that this test plays. The broker goes on serving those who do not need
it, says in words what is wrong, and keeps nothing of it."""
import json
import os
import shutil
import socket
import struct
import threading
import time
import unittest

import harness
from harness import SLOW, until

VERSION = {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}
INFO = {"OSType": "linux", "CgroupVersion": "2", "MemoryLimit": True, "PidsLimit": True, "CpuCfsQuota": True,
        "Runtimes": {"runc": {}}}


def answer(o, status="200 OK"):
    body = o if isinstance(o, bytes) else json.dumps(o).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Engine:
    """What listens where DOCKER_HOST says. answers: path without version → bytes, or what deals with the connection."""

    def __init__(self, place, **answers):
        self.path = os.path.join(place.run, "engine.sock")
        self.answers = {"/_ping": answer(b"OK"), "/version": answer(VERSION), "/info": answer(INFO), "/images/": answer({"Config": {}}), **answers}
        self.asked = []
        self.open = set()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o777)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        self.open.add(client)
        try:
            head = client.recv(65536).decode("latin-1")
            target = head.split(" ")[1] if " " in head else head
            path = target[target.index("/", 1):] if target.startswith("/v1.") else target
            self.asked.append(path)
            deal = next((v for k, v in self.answers.items() if path.startswith(k)), answer({"message": "no"}, "404 Not Found"))
            if callable(deal):
                deal(client)
            else:
                client.sendall(deal)
        except OSError:
            pass
        finally:
            self.open.discard(client)
            client.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)
        for client in list(self.open):
            client.close()


def silent(client):
    while client.recv(65536):
        pass


def slow(client):
    for byte in answer(VERSION):
        client.sendall(bytes([byte]))
        time.sleep(0.5)


def garbage(client):
    client.sendall(os.urandom(100_000))


def vanishes(client):
    client.sendall(answer(VERSION)[:-10])
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def endless(client):
    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n{\"Version\": \"")
    while True:
        client.sendall(b"a" * 65536)


DEEP = answer(b'{"a":' * 100_000)
TWICE = answer(b'{"ApiVersion": "1.41", "ApiVersion": "9.9"}')


class Hostile(unittest.TestCase):
    def setUp(self):
        self.place = harness.Place()
        self.clients = []
        self.engine = None

    def tearDown(self):
        for c in self.clients:
            if c.alive():
                c.close()
        self.place.end()
        if self.engine:
            self.engine.close()
        for c in self.clients:
            self.assertEqual([], c.faults)
        if not until(lambda: not self.place.leftovers(), 2):
            self.place.serve("--solo", BROKER_PROVIDER="bubblewrap").close()
        self.assertEqual([], self.place.leftovers())
        shutil.rmtree(self.place.top, True)

    def explain(self):
        log = os.path.join(self.place.state, "scb", "broker.log")
        text = "".join(c.explain() for c in self.clients)
        return text + (open(log).read()[-3000:] if os.path.exists(log) else "")

    def serve(self, provider):
        c = self.place.serve(BROKER_PROVIDER=provider, DOCKER_HOST="unix://" + self.place.run + "/engine.sock")
        self.clients.append(c)
        return c

    def busy(self):
        """A client of bubblewrap that is at work, and the longest that one of its calls took."""
        client = self.serve("bubblewrap")
        client.initialize()
        self.assertFalse(client.tool("run_code", code="1 + 1").is_error)
        over = threading.Event()
        longest = [0.0, 0]

        def work():
            while not over.is_set():
                began = time.monotonic()
                r = client.tool("run_code", code="1 + 1")
                longest[0] = max(longest[0], time.monotonic() - began)
                longest[1] += 0 if r.is_error else 1
                time.sleep(0.01)

        thread = threading.Thread(target=work)
        thread.start()

        def end():
            enough = until(lambda: longest[1] > 5, 10)
            over.set()
            thread.join()
            self.assertTrue(enough, longest)
            self.assertLess(longest[0], 1.0 * SLOW, "the broker stood still")

        return end

    def refused(self, provider="docker"):
        client = self.serve(provider)
        client.initialize(timeout=30)
        r = client.tool("run_code", code="1 + 1")
        client.close()
        return r

    def hostile(self, deal, word, at="/version"):
        """The others go on; who wants docker is told why not, who wants any gets another."""
        self.engine = Engine(self.place, **{at: deal})
        end = self.busy()
        r = self.refused()
        self.assertTrue(r.is_error, r.text)
        self.assertIn("provider_unusable", r.text)
        self.assertIn("DOCKER_HOST", r.text)
        self.assertIn(word, r.text)
        other = self.refused("auto")
        self.assertFalse(other.is_error, other.text)
        end()

    def test_silent(self):
        """an engine that accepts and never answers"""
        self.hostile(silent, "no answer", "/_ping")

    def test_slow(self):
        """an engine that answers byte by byte"""
        self.hostile(slow, "no answer", "/_ping")

    def test_garbage(self):
        """an engine that answers garbage"""
        self.hostile(garbage, "does not answer as one")

    def test_vanishes(self):
        """an engine that vanishes in the middle of its answer"""
        self.hostile(vanishes, "does not answer as one")

    def test_endless(self):
        """an engine whose answer never ends"""
        self.hostile(endless, "does not answer as one")

    def test_deep(self):
        """an answer of a hundred thousand levels"""
        self.hostile(DEEP, "is no Docker Engine")

    def test_twice(self):
        """an answer that says two things"""
        self.hostile(TWICE, "is no Docker Engine")

    def test_too_old(self):
        """an engine whose API ends before what is used here"""
        old = {**VERSION, "Version": "19.03.15", "ApiVersion": "1.40"}
        self.engine = Engine(self.place, **{"/version": answer(old)})
        r = self.refused()
        self.assertTrue(r.is_error, r.text)
        self.assertIn("Docker 19.03.15 is too old: its API ends before 1.41; install Docker 20.10 or later", r.text)

    def test_hangs_later(self):
        """an engine that makes no container for long; its caller can go"""
        late = threading.Event()

        def hangs(client):
            late.wait(60)
            client.sendall(answer({"message": "late"}, "500 Internal Server Error"))

        self.engine = Engine(self.place, **{"/containers/create": hangs})
        end = self.busy()
        client = self.serve("docker")
        client.initialize()
        client.start("run_code", code="1")
        try:
            self.assertTrue(until(lambda: any(a.startswith("/containers/create") for a in self.engine.asked), 5))
            client.close()
            end()
        finally:
            late.set()

    def test_unanswered(self):
        """an engine that hangs up while it is asked for a container, and makes it all the same, a little later: it is removed"""
        made = threading.Event()

        def hangs_up(client):
            threading.Timer(3, made.set).start()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        def one(client):
            if made.is_set():
                self.removed += 1
                client.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            else:
                client.sendall(answer({"message": "No such container"}, "404 Not Found"))

        self.removed = 0
        self.engine = Engine(self.place, **{"/containers/create": hangs_up, "/containers/scb-x-": one})
        client = self.serve("docker")
        client.initialize()
        r = client.tool("run_code", code="1")
        self.assertIn("ended without an answer", r.text)
        self.assertTrue(until(lambda: self.removed, 20), "nobody asked for it again")
        self.assertTrue(until(lambda: not any("x-" in n for _, _, names in os.walk(self.place.run) for n in names), 10))

    def test_returns(self):
        """an engine that was not there is asked again"""
        client = self.serve("docker")
        client.initialize()
        r = client.tool("run_code", code="1")
        self.assertTrue(r.is_error)
        self.assertIn("apt install docker.io", r.text)
        self.engine = Engine(self.place, **{"/images/": answer({"message": "No such image"}, "404 Not Found")})
        self.assertTrue(until(lambda: "scb image build" in client.tool("run_code", code="1").text, 10, 0.5))


if __name__ == "__main__":
    harness.main()
