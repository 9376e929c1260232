"""Kernels that the agent did not start: handed over with their descriptors."""

import contextlib
import os
import signal
import socket
import struct
import subprocess

from agentcase import *  # noqa: F403

ADOPTEE = os.path.join(HERE, "adoptee.py")
KERNELS = os.path.dirname(PYTHON_KERNEL[1])


class Ends:
    """The descriptors of a kernel: the agent's ends and its own."""

    def __init__(self):
        agents_sup, self.sup = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        agents_sup.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        agents_control, self.control = socket.socketpair()
        out, self.out = os.pipe()
        err, self.err = os.pipe()
        self.agents = [agents_sup.detach(), agents_control.detach(), out, err]

    def theirs(self):
        return [self.sup.fileno(), self.control.fileno(), self.out, self.err]

    def close_theirs(self):
        self.sup.close()
        self.control.close()
        os.close(self.out)
        os.close(self.err)

    def close_agents(self):
        for fd in self.agents:
            os.close(fd)


class Adopted(Case):
    def setUp(self):
        super().setUp()
        self.c = self.agent.client()
        self.before = None
        with contextlib.suppress(unittest.SkipTest):  # those that compare it skip
            self.before = descriptors(self.agent.process.pid)

    def spawn(self):
        """The kernel's process, and the ends for the agent."""
        ends = Ends()
        process = subprocess.Popen(
            ["/usr/bin/python3", ADOPTEE, KERNELS, AGENT, *map(str, ends.theirs())],
            pass_fds=ends.theirs(), cwd=self.agent.workspace, env={"PATH": "/usr/bin:/bin"},
            start_new_session=True)
        self.addCleanup(self.reap, process)
        ends.close_theirs()
        return process, ends

    @staticmethod
    def reap(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(5)

    def adopt(self, ends, kernel="k", argv=TEST_KERNEL, more=b""):
        stream = self.c.open_with_fds(
            ends.agents, OP_KERNEL_ADOPT, tlv(TAG_KERNEL, kernel),
            *[tlv(TAG_ARGV, arg) for arg in argv], more)
        ends.close_agents()
        return self.c.wait(stream)

    def adopted(self, kernel="k"):
        process, ends = self.spawn()
        end = self.ok(self.adopt(ends, kernel))
        self.assertEqual((end.generation, end.created), (1, 1))
        return process

    def state(self, kernel="k"):
        for m in self.c.call(OP_KERNEL_LIST).msgs:
            if m.text("kernel") == kernel:
                return m
        return None

    def test_cells_and_output(self):
        self.adopted()
        end = self.ok(self.c.run_cell("import os; print('hi'); x = 6"))
        self.assertEqual((end.stdout, end.reason_name, end.generation), (b"hi\n", "REASON_EXIT", 1))
        answer = self.c.run_cell("x * 7")
        self.assertEqual(answer.msgs[0].bytes_("mime_data"), b"42")
        pid = self.ok(self.c.run_cell("print(os.getpid(), os.getppid(), os.getsid(0))")).stdout.split()
        self.assertEqual(int(pid[0]), int(pid[2]))
        self.assertEqual(self.state().pid, int(pid[0]))
        name = open(f"/proc/{int(pid[1])}/comm").read().strip()
        self.assertEqual(name, "scb-supervisor")
        self.assertEqual(descriptors(int(pid[1])), 1)

    def test_the_supervisor_is_small(self):
        process = self.adopted()
        self.ok(self.c.run_cell("1"))
        self.assertLess(private_kib(process.pid), 200)

    def test_its_death_is_measured_and_the_next_start_is_plain(self):
        self.adopted()
        end = self.ok(self.c.run_cell("import os; os._exit(7)"))
        self.assertEqual((end.reason_name, end.exit_code, end.evidence),
                         ("REASON_INTERPRETER_DIED", 7, EVIDENCE_REPORTED))
        end = self.ok(self.c.run_cell("say plain"))
        self.assertEqual((end.stdout, end.generation, end.created), (b"plain", 2, 1))

    def test_stop_takes_its_tree_and_leaves_no_descriptor(self):
        process = self.adopted()
        seconds = unique_seconds()
        self.ok(self.c.run_cell(f"import subprocess; p = subprocess.Popen(['setsid', 'sleep', '{seconds}'])"))
        self.assertTrue(until(lambda: alive(seconds)))
        self.ok(self.c.call(OP_KERNEL_STOP, tlv(TAG_KERNEL, "k")))
        self.assertEqual(alive(seconds), [])
        self.assertEqual(process.wait(5), 0)
        self.assertTrue(until(lambda: descriptors(self.agent.process.pid) == self.before))

    def test_a_killed_supervisor_takes_its_kernel_along(self):
        process = self.adopted()
        self.ok(self.c.run_cell("1"))
        pid = self.state().pid
        stream = self.c.cell("import time; time.sleep(60)")
        time.sleep(0.1)
        process.kill()
        end = self.ok(self.c.wait(stream))
        self.assertEqual((end.reason_name, end.evidence, end.notes),
                         ("REASON_INTERPRETER_DIED", EVIDENCE_INFERRED, ["exit_status_lost"]))
        self.assertTrue(until(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in
                              open(f"/proc/{pid}/stat").read().rpartition(")")[2]))

    def test_a_stopped_supervisor_is_replaced_by_the_agent(self):
        process = self.adopted()
        self.ok(self.c.run_cell("1"))
        process.send_signal(signal.SIGSTOP)
        self.ok(self.c.call(OP_KERNEL_STOP, tlv(TAG_KERNEL, "k")))
        self.assertEqual(process.wait(5), -signal.SIGKILL)
        self.assertTrue(until(lambda: descriptors(self.agent.process.pid) == self.before))

    def test_ending_another_tree_leaves_it(self):
        self.adopted()
        self.ok(self.c.run_cell("x = 1"))
        # Its supervisor dies, so that the agent itself ends what is left.
        self.c.run("kill -9 $PPID; setsid sleep 60 & sleep 60", timeout_ms=300)
        self.assertEqual(self.c.run_cell("x").msgs[0].bytes_("mime_data"), b"1")

    def test_interrupt(self):
        self.adopted()
        self.ok(self.c.run_cell("import time"))
        stream = self.c.cell("time.sleep(60)")
        time.sleep(0.2)
        self.ok(self.c.call(OP_KERNEL_INTERRUPT, tlv(TAG_KERNEL, "k")))
        self.assertEqual(self.ok(self.c.wait(stream)).reason_name, "REASON_CANCELLED")

    def test_it_ends_with_the_agent(self):
        process = self.adopted()
        self.ok(self.c.run_cell("1"))
        self.agent.process.kill()
        self.assertEqual(process.wait(5), 0)

    # ---- what is not adopted ----

    def test_a_pid_that_is_only_claimed_is_not_believed(self):
        victim = subprocess.Popen(["sleep", "60"], start_new_session=True)
        self.addCleanup(self.reap, victim)
        ends = Ends()
        self.ok(self.adopt(ends))
        liar = os.fork()
        if liar == 0:
            ends.sup.send(struct.pack("=BBxxii32s", 1, 0, victim.pid, 0, b""))
            ends.sup.send(struct.pack("=BBxxii32s", 7, 0, victim.pid, 0, b""))
            signal.pause()
            os._exit(0)
        self.assertTrue(until(lambda: self.state().pid == liar))
        ends.close_theirs()
        self.ok(self.c.call(OP_KERNEL_STOP, tlv(TAG_KERNEL, "k")))
        self.assertEqual(os.waitpid(liar, 0)[1], signal.SIGKILL)
        self.assertIsNone(victim.poll())

    def test_broken_ends(self):
        ends = Ends()
        ends.agents[0], ends.agents[1] = ends.agents[1], ends.agents[0]
        self.status(self.adopt(ends), "WIRE_BAD_REQUEST")
        ends.close_theirs()
        self.assertEqual(descriptors(self.agent.process.pid), self.before)
        end = self.ok(self.c.run_cell("say plain"))  # the definition stayed
        self.assertEqual(end.stdout, b"plain")

    def test_descriptors_that_nobody_expects_are_closed(self):
        a, b = os.pipe()
        for fds, op in (([a], OP_USAGE), ([a] * 4, OP_USAGE), ([a] * 5, OP_KERNEL_ADOPT),
                        ([a], OP_KERNEL_ADOPT), ([], OP_KERNEL_ADOPT)):
            parts = (tlv(TAG_KERNEL, "k"), tlv(TAG_ARGV, "x"))
            answer = self.c.wait(self.c.open_with_fds(fds, op, *parts))
            self.status(answer, "WIRE_OK" if op == OP_USAGE else "WIRE_BAD_REQUEST")
            self.assertEqual(descriptors(self.agent.process.pid), self.before)
        os.close(a)
        os.close(b)

    def test_descriptors_before_the_key_are_closed(self):
        c = self.agent.connect()
        a, b = os.pipe()
        socket.send_fds(c.socket, [frame(FRAME_CHALLENGE, 0, SYNC + os.urandom(32))], [a])
        self.assertEqual(c.read_frame()[0], FRAME_PROOF)
        self.assertEqual(descriptors(self.agent.process.pid), self.before + 1)  # the link itself
        os.close(a)
        os.close(b)

    def test_a_running_kernel_is_not_replaced(self):
        self.ok(self.c.start_kernel(TEST_KERNEL))
        process, ends = self.spawn()
        self.status(self.adopt(ends), "WIRE_EXISTS")
        self.assertEqual(process.wait(10), 0)  # nobody holds its other ends
        self.assertEqual(self.ok(self.c.run_cell("say still")).stdout, b"still")

    def test_the_hello_says_so(self):
        self.assertIn(b"adopt", self.c.hello.all("feature"))


if __name__ == "__main__":
    tap.main()
