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

    def test_without_a_lease_the_agent_waits_for_a_broker(self):
        self.agent.client().close()
        time.sleep(0.4)
        c = self.agent.client()
        time.sleep(1)
        self.ok(c.call(OP_USAGE))  # no lease again
        c.close()
        began = time.monotonic()
        self.assertEqual(self.agent.process.wait(5), 0)
        self.assertGreater(time.monotonic() - began, 0.6)


class Brokerless(Case):
    agent_options = {"orphan_ms": 1000, "lease_ms": 60000}

    def lease(self, client, ms):
        self.ok(client.call(OP_LEASE, tlv(TAG_LEASE_MS, ms)))

    def test_the_lease_goes_on_without_a_broker(self):
        c = self.agent.client()
        self.lease(c, 600)
        c.close()
        began = time.monotonic()
        self.assertEqual(self.agent.process.wait(5), 0)
        self.assertTrue(0.5 < time.monotonic() - began < 3)

    def test_what_runs_is_waited_for_and_what_it_said_kept_for_a_while(self):
        c = self.agent.client()
        s = unique_seconds()
        c.start(f"sleep {s} & sleep 1.2; echo done")
        job = c.job
        self.lease(c, 300)
        c.close()
        began = time.monotonic()
        time.sleep(1.6)
        c = self.agent.client()
        self.assertEqual(self.ok(c.wait_job(job)).stdout, b"done\n")
        c.close()
        self.assertEqual(self.agent.process.wait(10), 0)  # the background child does not count
        self.assertGreater(time.monotonic() - began, 2)
        self.assertEqual(alive(s), [])

    def test_a_running_cell_is_waited_for_an_idle_kernel_is_not(self):
        c = self.agent.client()
        self.ok(c.start_kernel(PYTHON_KERNEL))
        self.ok(c.run_cell("import time"))
        c.cell("time.sleep(1.2); open('done', 'w')")
        self.lease(c, 300)
        c.close()
        done = os.path.join(self.agent.workspace, "done")
        self.assertTrue(until(lambda: os.path.exists(done), 5))
        self.assertIsNone(self.agent.process.poll())
        self.assertEqual(self.agent.process.wait(5), 0)

    def test_a_broker_that_comes_back_has_time_to_prolong(self):
        c = self.agent.client()
        self.lease(c, 400)
        c.close()
        time.sleep(0.3)
        c = self.agent.client()
        time.sleep(0.6)
        self.lease(c, 60000)
        time.sleep(2.5)
        self.ok(c.call(OP_USAGE))

    def test_a_broker_that_is_stopped_does_not_keep_it(self):
        c = self.agent.client()
        self.lease(c, 400)  # and nothing more is heard of it, with the link open
        self.assertEqual(self.agent.process.wait(5), 0)


class Lease(Case):
    agent_options = {"lease_ms": 700, "orphan_ms": 500}

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
