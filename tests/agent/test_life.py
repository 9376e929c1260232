#!/usr/bin/python3
"""The real scb-agent, unconfined: how it starts and how it ends."""

from agentcase import *  # noqa: F403


class Endings(Case):
    def test_shutdown_leaves_nothing(self):
        c = self.agent.client()
        s = unique_seconds()
        self.ok(c.run(f"setsid sleep {s} & sleep {s} &"))
        c.start(f"sleep {s}")
        self.assertTrue(until(lambda: len(alive(s)) >= 3))
        self.assertEqual(self.agent.stop(), 0)
        self.assertEqual(alive(s), [])


class OrphanAtOnce(Case):
    agent_options = {"orphan_ms": 0}

    def test_the_agent_ends_with_its_link(self):
        s = unique_seconds()
        c = self.agent.client()
        c.start(f"sleep {s}")
        self.assertTrue(until(lambda: alive(s)))
        other = self.agent.client()  # a replaced link is no end
        self.ok(other.call(OP_USAGE))
        other.close()
        self.assertEqual(self.agent.process.wait(3), 0)
        self.assertEqual(alive(s), [])


class OrphanLater(Case):
    agent_options = {"orphan_ms": 700}

    def test_the_agent_waits_for_a_broker(self):
        self.agent.client().close()
        time.sleep(0.3)
        self.agent.client().close()
        self.assertEqual(self.agent.process.wait(3), 0)


class Lease(Case):
    agent_options = {"lease_ms": 700}

    def test_it_runs_out(self):
        began = time.monotonic()
        self.agent.client()
        self.assertEqual(self.agent.process.wait(5), 0)
        self.assertGreater(time.monotonic() - began, 0.5)

    def test_it_is_prolonged(self):
        c = self.agent.client()
        self.ok(c.call(OP_LEASE, tlv(TAG_LEASE_MS, 60000)))
        time.sleep(1)
        self.ok(c.call(OP_LEASE, tlv(TAG_LEASE_MS, 300)))
        self.assertEqual(self.agent.process.wait(5), 0)

    def test_a_running_job_holds_it_a_background_child_does_not(self):
        c = self.agent.client()
        s = unique_seconds()
        stream = c.start(f"sleep {s} & sleep 1.5; echo done")
        self.assertEqual(self.ok(c.wait(stream)).stdout, b"done\n")
        self.assertEqual(self.agent.process.wait(3), 0)
        self.assertEqual(alive(s), [])


class Start(unittest.TestCase):
    def test_bad_arguments(self):
        for arguments in ([], ["listen:0", "5"], ["stdio", "5"], ["listen:x", "y"]):
            done = subprocess.run([AGENT, *arguments], capture_output=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"usage", done.stderr)

    def test_a_broken_configuration(self):
        for config in (b"", b"junk", tlv(BOOT_KEY, b"short"), tlv(BOOT_KEY, bytes(32)),
                       tlv(BOOT_KEY, bytes(32)) + tlv(BOOT_ID, bytes(16)) +
                       tlv(BOOT_WORKSPACE, "/no/such")):
            listening = socket.socket(socket.AF_UNIX)
            listening.bind("")
            listening.listen()
            reading, writing = os.pipe()
            os.write(writing, config)
            os.close(writing)
            done = subprocess.run([AGENT, f"listen:{listening.fileno()}", str(reading)],
                                  pass_fds=[listening.fileno(), reading], capture_output=True)
            self.assertEqual(done.returncode, 1, config)
            self.assertIn(b"scb: error", done.stderr)
            os.close(reading)


if __name__ == "__main__":
    tap.main()
