"""What brokers that die and starts that fail leave with an engine: nothing, and a broker touches nobody else's containers.

Started by tests/engines/dockerd, whose engine has nothing but this.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
from harness import Place, alive, command_line, containers, until  # noqa: E402

ENGINE = os.environ.get("SCB_ENGINE", "")


def of_containers():
    """Shims, gofers, sandboxes: what has the engine's directory in its command line and is not the engine."""
    found = []
    for entry in os.listdir("/proc"):
        line = command_line(entry) if entry.isdigit() else ""
        if ENGINE + "/" in line and not any(own in line.split(" ")[0] for own in ("dockerd", "python3")) \
                and not line.startswith(("containerd ", "/usr/bin/containerd ")):
            found.append(f"{entry}: {line}")
    return found


def register(**runtimes):
    """Tells the engine of runtimes, under names that it may know already."""
    path = os.path.join(ENGINE, "daemon.json")
    with open(path, encoding="utf-8") as f:
        known = json.load(f)
    known["runtimes"].update(runtimes)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(known, f)
    with open(os.path.join(ENGINE, "pid"), encoding="ascii") as f:
        os.kill(int(f.read()), signal.SIGHUP)

    def is_known():
        info = subprocess.run(["docker", "info", "--format", "{{json .Runtimes}}"], capture_output=True, text=True).stdout
        has = json.loads(info)
        return all(has.get(name, {}).get("runtimeArgs") == r["runtimeArgs"] for name, r in runtimes.items())

    assert until(is_known, 30, 0.2)


class Proxy:
    """The engine by TCP, as one elsewhere: links are stdio then. What is sent into an attached stream is lost as long as
    `holds`."""

    def __init__(self):
        self.holds = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "tcp://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(os.environ["DOCKER_HOST"].removeprefix("unix://"))
            threading.Thread(target=self.pump, args=(client, engine), daemon=True).start()
            threading.Thread(target=self.pump, args=(engine, client), daemon=True).start()

    def pump(self, source, target):
        attached = 0
        try:
            while data := source.recv(65536):
                if attached and self.holds:
                    continue
                attached += b"/attach?" in data.split(b"\r\n", 1)[0]
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Orphans(unittest.TestCase):
    def setUp(self):
        self.places = []

    def tearDown(self):
        for place in self.places:
            place.end()
            shutil.rmtree(place.top, True)

    def serve(self, *arguments, place=None, **env):
        if place is None:
            place = Place()
            self.places.append(place)
        client = place.serve(*arguments, **env)
        client.initialize(timeout=60)
        return place, client

    def has_sandbox(self, client):
        before = set(containers())
        r = client.tool("run_command", command="echo here", wait_s=50, timeout=120)
        self.assertEqual("here\n", r.stdout, str(r))
        return (set(containers()) - before).pop()

    def test_dead(self):
        """a broker that is killed with its sandbox leaves a container, which the next scb removes; another's stays"""
        _, other = self.serve()
        others = self.has_sandbox(other)
        place, client = self.serve("--solo")
        own = self.has_sandbox(client)
        os.kill(client.pid, signal.SIGKILL)
        client.kill()

        def swept():
            place.scb("sessions", "list")
            return own not in containers()

        self.assertTrue(until(swept, 90, 0.5), containers())
        self.assertIn(others, containers())
        self.assertEqual("there\n", other.tool("run_command", command="echo there").stdout)
        other.close()

    def test_opening(self):
        """by stdio, a broker killed before the agent had its configuration: the next one opens the session all the same"""
        proxy = Proxy()
        self.addCleanup(proxy.listener.close)
        place, client = self.serve(DOCKER_HOST=proxy.address)
        proxy.holds = True
        call = client.start("run_command", command="echo here", wait_s=50)

        def runs():
            return [p for p in harness.in_containers() if "scb-agent stdio" in command_line(p)]

        self.assertTrue(until(runs, 60), containers())
        first = runs()
        os.kill(place.broker(), signal.SIGKILL)
        proxy.holds = False
        r = client.finish(call)
        self.assertEqual("here\n", r.stdout, str(r))
        self.assertFalse(any(alive(p) for p in first))
        self.assertEqual(1, len(containers()))
        events = [e["event"] for e in place.audit()]
        self.assertEqual((1, 0), (events.count("session.open"), events.count("session.lost")))
        client.close()

    def test_foreign(self):
        """containers of others are nobody's orphans, whatever they are called and labelled"""
        place, client = self.serve()
        name = "scb-x-" + "0" * 32
        subprocess.run(["docker", "create", "--name", name, "--label", "dev.scb.sandbox=" + name[4:], "--label",
                        "dev.scb.broker=/somebody/else", "--network", "none", os.environ["BROKER_IMAGE"], "true"],
                       check=True, capture_output=True)
        self.addCleanup(subprocess.run, ["docker", "rm", "-f", name], capture_output=True)
        self.has_sandbox(client)
        os.kill(place.broker(), signal.SIGKILL)
        self.assertFalse(client.tool("session", action="list", timeout=60).is_error)
        place.scb("sessions", "close", "--all")
        client.close()
        self.assertEqual([name], containers())

    def failed(self, runtime, word):
        _, client = self.serve(BROKER_RUNTIME=runtime)
        r = client.tool("run_command", command="true", wait_s=50, timeout=120)
        self.assertTrue(r.is_error, str(r))
        self.assertIn(word, r.text)
        client.close()
        self.assertTrue(until(lambda: not containers() and not of_containers(), 60, 0.2), (containers(), of_containers()))

    def test_failed_runc(self):
        """a start that runc fails: the engine's reason; no container, no shim"""
        register(broken={"path": shutil.which("runc"), "runtimeArgs": ["--no-such-option"]})
        self.failed("broken", "refused to start the sandbox's container")

    @unittest.skipUnless(shutil.which("runsc"), "runsc is not installed")
    def test_failed_runsc(self):
        """a start that runsc fails (no such platform): the same, and no gofer, no sandbox process"""
        register(runsc={"path": shutil.which("runsc"), "runtimeArgs": ["--network=none", "--platform=none"]})
        self.failed("runsc", "refused to start the sandbox's container")


if __name__ == "__main__":
    harness.main()
