#!/usr/bin/python3
"""A broker that outlives its hosts, where systemd ends what it finds in a host's scope."""
import os
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
from harness import alive, until  # noqa: E402

FORKS = "import os, time\nfor _ in range(60):\n    if os.fork() == 0: time.sleep(20); os._exit(0)"


def group(pid):
    with open(f"/proc/{pid}/cgroup") as f:
        return re.search(r"^0::(.*)$", f.read(), re.M)[1]


class Scope(unittest.TestCase):
    def setUp(self):
        self.place = harness.Place()
        self.env = self.place.environment()
        self.client = None

    def explain(self):
        return self.client.explain() if self.client else ""

    def systemctl(self, *arguments):
        done = subprocess.run(["systemctl", "--user", *arguments], env=self.env, capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)

    def host(self, unit, *options):
        """`scb serve` as an application's child: in the scope of that name."""
        in_scope = ["systemd-run", "--user", "--scope", "--quiet", "--collect", "--unit=" + unit]
        self.client = harness.Client([*in_scope, *self.place.command("serve", *options)], self.env,
                                     cwd=self.place.home)
        self.client.server = self.place.broker
        self.client.initialize()
        return self.client

    def remember(self, client):
        r = client.tool("run_code", language="python", code="x = 41")
        self.assertFalse(r.is_error, r.text)
        return r.session

    def assertRemembers(self, client, session):
        r = client.tool("run_code", language="python", code="print(x + 1)", session=session)
        self.assertEqual("42\n", r.stdout, str(r))

    def test_scope_of_its_own(self):
        """the broker has a scope of its own, apart from its host's"""
        c = self.host("host-own")
        self.remember(c)
        self.assertIn("host-own.scope", group(c.proc.pid))
        own = group(c.pid)
        self.assertNotIn("host-own", own)
        self.assertRegex(own, r"/run-[^/]+\.scope/scb-broker$")
        info = c.tool("session", action="info")
        self.assertEqual("cgroup2", info.data["enforced"]["memory"], info.text)

    def test_solo(self):
        """a broker that is started in a delegated scope by hand has its groups there"""
        delegated = os.path.join(os.path.dirname(os.path.abspath(__file__)), "delegated")
        self.client = c = harness.Client([delegated, *self.place.command("serve", "--solo")], self.env,
                                         cwd=self.place.home)
        c.initialize()
        info = c.tool("session", action="info", session=self.remember(c))
        said = info.data["enforced"]
        self.assertEqual(("cgroup2", "cgroup2", "cgroup.kill"), (said["memory"], said["cpu"], said["killTree"]))
        c.close()

    def test_host_scope_is_killed(self):
        """all of the host's scope is killed: broker, sandbox and kernel live on, for the next host"""
        c = self.host("host-one")
        session, broker = self.remember(c), self.place.broker()
        self.systemctl("kill", "--signal=KILL", "host-one.scope")
        c.proc.wait(10 * harness.SLOW)
        again = self.host("host-two")
        self.assertEqual(broker, self.place.broker())
        self.assertRemembers(again, session)

    def test_host_scope_is_stopped(self):
        """the host's scope is stopped, as at the end of an application: the same"""
        c = self.host("host-three")
        session, broker = self.remember(c), self.place.broker()
        self.systemctl("stop", "host-three.scope")
        c.proc.wait(10 * harness.SLOW)
        self.assertTrue(alive(broker))
        self.assertRemembers(self.host("host-four"), session)

    def test_process_group_is_killed(self):
        """the host kills its process group: the same"""
        c = self.host("host-five")
        session, broker = self.remember(c), self.place.broker()
        os.killpg(os.getpgid(c.proc.pid), signal.SIGKILL)
        c.proc.wait(10 * harness.SLOW)
        self.assertTrue(alive(broker))
        self.assertRemembers(self.host("host-six"), session)

    def test_broker_is_killed(self):
        """the broker is killed: the next one, in a scope of its own, has the sandbox, whose limits hold"""
        c = self.host("host-seven", "--limit", "pids=40")
        session, broker = self.remember(c), self.place.broker()
        before = group(broker)
        os.kill(broker, signal.SIGKILL)
        self.assertRemembers(c, session)
        self.assertNotEqual(broker, self.place.broker())
        self.assertNotEqual(before, group(self.place.broker()))
        info = c.tool("session", action="info", session=session)
        self.assertEqual("cgroup2", info.data["enforced"]["memory"], info.text)
        r = c.tool("run_command", session=session, argv=["python3", "-c", FORKS])
        self.assertEqual("too_many_processes", r.reason, str(r))
        self.assertFalse(c.tool("session", action="close", session=session).is_error)
        scope = "/sys/fs/cgroup" + os.path.dirname(before)
        self.assertTrue(until(lambda: not os.path.exists(scope), 10), f"{scope} stays behind")


if __name__ == "__main__":
    harness.main()
