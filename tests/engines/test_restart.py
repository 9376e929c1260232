"""An engine that is restarted under live sessions: with live-restore they go on, without they end as
sandbox_lost, and `scb doctor` says which.

Started by tests/engines/dockerd, whose engine this ends and starts as it likes.
"""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
from harness import Case, alive, containers, until  # noqa: E402

ENGINE = os.environ.get("SCB_ENGINE", "")


def configure(**settings):
    path = os.path.join(ENGINE, "daemon.json")
    with open(path, encoding="utf-8") as f:
        known = json.load(f)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({**known, **settings}, f)


def answers():
    return subprocess.run(["docker", "version"], capture_output=True).returncode == 0


def end(how):
    with open(os.path.join(ENGINE, "pid"), encoding="ascii") as f:
        pid = int(f.read())
    os.kill(pid, how)
    if not until(lambda: not alive(pid), 60):
        raise AssertionError("the engine does not end")


def forget_dead():
    """What an engine that was killed left of itself; to dockerd a zombie is alive."""
    for name in ("pid", "exec/containerd/containerd.pid"):
        path = os.path.join(ENGINE, name)
        if os.path.exists(path):
            with open(path, encoding="ascii") as f:
                dead = not alive(f.read().strip())
            if dead:
                os.unlink(path)


def start():
    """As a service manager does: once more where it ends at once, because a part of the killed one still lives."""
    for _ in range(3):
        forget_dead()
        engine = subprocess.Popen([os.path.join(ENGINE, "start")], start_new_session=True)
        until(lambda e=engine: answers() or e.poll() is not None, 60, 0.2)
        if engine.poll() is None and answers():
            return
    raise AssertionError("the engine does not come back")


LOOP = "for i in $(seq 40); do echo $i; sleep 0.1; done"
ALL = "".join(f"{i}\n" for i in range(1, 41))


class LiveRestore(Case):
    @classmethod
    def setUpClass(cls):
        configure(**{"live-restore": True})
        end(signal.SIGTERM)
        start()
        super().setUpClass()

    def over(self, how):
        s = self.open()
        self.assertDone(self.py("x = 41", session=s))
        job = self.sh(LOOP, session=s, wait_s=0).job
        end(how)
        self.assertFalse(answers())
        r = self.py("x += 1; print(x)", session=s)
        self.assertEqual("42\n", r.stdout, str(r))  # the engine has no part in the link
        start()
        done = self.client.tool("job", action="wait", job=job)
        self.assertDone(done)
        self.assertEqual(ALL, done.stdout)
        self.assertEqual("42\n", self.py("print(x)", session=s).stdout)
        # The engine can end it again, too.
        before = len(containers())
        self.client.tool("session", action="close", session=s)
        self.assertEqual(before - 1, len(containers()))

    def test_killed(self):
        """kill -9 of an engine with live-restore: kernel, job and output go on, meanwhile as well"""
        self.over(signal.SIGKILL)

    def test_restarted(self):
        """an orderly restart of an engine with live-restore: the same"""
        self.over(signal.SIGTERM)

    def test_broker_killed_too(self):
        """broker and engine killed: the next broker finds the session before and after the engine is back"""
        s = self.open()
        self.assertDone(self.py("x = 41", session=s))
        end(signal.SIGKILL)
        os.kill(self.place.broker(), signal.SIGKILL)
        r = self.py("x += 1; print(x)", session=s)
        self.assertEqual("42\n", r.stdout, str(r))
        start()
        self.assertEqual("42\n", self.py("print(x)", session=s).stdout)

    def test_doctor(self):
        """doctor says that sandboxes go on"""
        said = " ".join(self.place.scb("doctor").stdout.split())
        self.assertIn("go on while the engine is restarted", said)


class Plain(Case):
    @classmethod
    def setUpClass(cls):
        configure(**{"live-restore": False})
        end(signal.SIGTERM)
        start()
        super().setUpClass()

    def over(self, how, *words):
        s = self.open()
        self.assertDone(self.py("x = 41", session=s))
        call = self.client.start("run_command", command="sleep 100", session=s, wait_s=50)
        end(how)
        start()
        r = self.client.finish(call)
        self.assertEqual("sandbox_lost", r.reason, str(r))
        for word in words:
            self.assertIn(word, str(r))
        self.assertRefused(self.py("x", session=s), "lost")
        self.client.tool("session", action="close", session=s)
        self.assertEqual([], containers())

    def test_restarted(self):
        """an orderly restart of an engine: sandbox_lost, with the reason"""
        self.over(signal.SIGTERM, "live-restore")

    def test_killed(self):
        """kill -9 of an engine: sandbox_lost, with the reason, once it has ended them"""
        self.over(signal.SIGKILL, "live-restore")

    def test_doctor(self):
        """doctor says that a restart ends them, and what to do"""
        said = " ".join(self.place.scb("doctor").stdout.split())
        self.assertIn("A restart of the engine ends its sandboxes", said)
        self.assertIn('With "live-restore": true in /etc/docker/daemon.json they go on', said)


if __name__ == "__main__":
    harness.main()
