"""The real scb-agent, unconfined, driven over its link."""

import ctypes
import os
import platform
import random
import signal
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import tap  # noqa: E402
from agentclient import *  # noqa: E402,F403

HERE = os.path.dirname(os.path.abspath(__file__))
TEST_KERNEL = ["/usr/bin/python3", os.path.join(HERE, "testkernel.py")]
PYTHON_KERNEL = ["/usr/bin/python3", os.path.join(ROOT, "build/kernels/python/kernel.py")]
if not os.path.exists(PYTHON_KERNEL[1]):
    PYTHON_KERNEL[1] = os.path.join(ROOT, "kernels/python/kernel.py")


def alive(marker):
    """Processes whose command line holds the text."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = open(f"/proc/{name}/cmdline", "rb").read()
                state = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if marker.encode() in line and state != "Z" and int(name) != os.getpid():
                found.append(int(name))
    return found


_unique = iter(range(10**9))


def unique_seconds():
    """An argument for sleep that no other process has."""
    return f"300.{os.getpid()}{next(_unique):04d}"


def until(condition, seconds=3.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


class Case(unittest.TestCase):
    boot = ()
    agent_options = {}

    def setUp(self):
        self.agent = Agent(*self.boot, **self.agent_options)
        self.addCleanup(self.agent.stop)

    def ok(self, answer):
        self.assertEqual(answer.status_name, "WIRE_OK", answer)
        return answer.end

    def status(self, answer, name):
        self.assertEqual(answer.status_name, name, answer)
        return answer.end


class Handshake(Case):
    def closed(self, client, seconds=2):
        with self.assertRaises((LinkLost, BrokenPipeError)):
            client.read_frame(seconds)

    def test_hello(self):
        c = self.agent.client()
        self.assertEqual(c.hello.protocol_min, 1)
        self.assertEqual(c.hello.protocol_max, 1)
        self.assertEqual(c.hello.bytes_("boot_id"), self.agent.boot_id)
        self.assertTrue(c.hello.text("build"))
        self.assertLess(c.hello.uptime_ms, 60000)

    def test_a_wrong_key_is_refused_and_told(self):
        good = self.agent.client()
        bad = self.agent.connect()
        bad.key = os.urandom(32)
        nonce_b, nonce_a, _ = bad.challenge()
        bad.send(frame(FRAME_CONFIRM, 0, bad.broker_mac(nonce_a, nonce_b)))
        self.closed(bad)
        good.step(2)
        self.assertEqual(good.events[0][0], EVENT_AUTH_FAILED)
        self.assertEqual(good.events[0][1].count, 1)
        self.assertEqual(self.ok(good.run("echo fine")).stdout, b"fine\n")

    def test_failures_without_a_link_are_told_later(self):
        bad = self.agent.connect()
        bad.send(frame(FRAME_CHALLENGE, 0, bytes(48)))
        self.closed(bad)
        good = self.agent.client()
        good.step(2)
        self.assertEqual(good.events[0][1].count, 1)

    def test_the_agents_own_proof_reflected_is_no_confirmation(self):
        c = self.agent.connect()
        _, _, mac = c.challenge()
        c.send(frame(FRAME_CONFIRM, 0, mac))
        self.closed(c)

    def test_the_proof_depends_on_both_nonces(self):
        a, b = self.agent.connect(), self.agent.connect()
        nonce = os.urandom(32)
        self.assertNotEqual(a.challenge(nonce)[1:], b.challenge(nonce)[1:])

    def test_nothing_before_the_key(self):
        for first in (frame(FRAME_OPEN, 1, struct.pack(">H", OP_USAGE)), frame(FRAME_PING),
                      b"GET / HTTP/1.1\r\n\r\n", frame(FRAME_CONFIRM, 0, bytes(32))):
            c = self.agent.connect()
            c.send(first)
            self.closed(c)
        c = self.agent.connect()
        c.challenge()
        c.send(frame(FRAME_OPEN, 1, struct.pack(">H", OP_USAGE)))
        self.closed(c)

    def test_a_long_frame_before_the_key_is_refused_by_its_header(self):
        c = self.agent.connect()
        c.send(struct.pack(">BBHII", 1, FRAME_CHALLENGE, 0, 0, 200000))
        self.closed(c)

    def test_a_peer_that_says_nothing_is_dropped_after_5_s(self):
        slow = self.agent.connect()
        began = time.monotonic()
        c = self.agent.client()
        self.ok(c.run("true"))
        self.closed(slow, 8)
        self.assertTrue(4.5 < time.monotonic() - began < 7)

    def test_many_silent_peers_do_not_keep_the_broker_away(self):
        for _ in range(20):
            self.agent.connect()
        began = time.monotonic()
        self.agent.client()
        self.assertLess(time.monotonic() - began, 2)

    def test_a_newcomer_takes_over_and_finds_the_job(self):
        old = self.agent.client()
        old.start("sleep 0.4; echo done")
        job = old.job
        new = self.agent.client()
        self.closed(old)
        self.assertEqual(self.ok(new.wait_job(job)).stdout, b"done\n")

    def test_a_handshake_in_single_bytes(self):
        c = self.agent.connect()
        nonce = os.urandom(32)
        for byte in frame(FRAME_CHALLENGE, 0, SYNC + nonce):
            c.send(bytes([byte]))
        kind, _, _, payload = c.read_frame()
        self.assertEqual(kind, FRAME_PROOF)
        self.assertEqual(payload[32:], c.agent_mac(nonce, payload[:32]))


class Protocol(Case):
    def breaks(self, data):
        c = self.agent.client()
        c.send(data)
        with self.assertRaises((LinkLost, BrokenPipeError, ConnectionResetError)):
            for _ in range(1000):
                c.read_frame(3)
        again = self.agent.client()
        self.ok(again.call(OP_USAGE))

    def test_what_breaks_protocol_loses_the_link_and_nothing_else(self):
        usage = struct.pack(">H", OP_USAGE)
        start = struct.pack(">H", OP_JOB_INPUT)
        for name, data in {
            "version": frame(FRAME_PING, version=2),
            "type": frame(99),
            "length": struct.pack(">BBHII", 1, FRAME_PING, 0, 0, PAYLOAD_MAX + 1),
            "stream 0": frame(FRAME_OPEN, 0, usage),
            "no operation": frame(FRAME_OPEN, 1, b"\0"),
            "a second challenge": frame(FRAME_CHALLENGE, 0, SYNC + bytes(32)),
            "an agent's frame": frame(FRAME_END, 1, b"\0\0"),
            "a kernel's frame": frame(FRAME_READY),
            "a long ping": frame(FRAME_PING, 0, bytes(65)),
            "short credit": frame(FRAME_CREDIT, 1, b"\0"),
            "text": b"\0" * 100,
        }.items():
            with self.subTest(name):
                self.breaks(data)

    def test_credit_beyond_all_sense(self):
        c = self.agent.client()
        c.start("sleep 5")
        with self.assertRaises((LinkLost, BrokenPipeError, ConnectionResetError)):
            for _ in range(10):
                c.send(frame(FRAME_CREDIT, 1, struct.pack(">I", 1 << 30)))
            c.read_frame(2)

    def test_data_beyond_the_window(self):
        c = self.agent.client()
        c.start("sleep 5", stdin=STDIN_OPEN)
        stream = c.open(OP_JOB_INPUT, tlv(TAG_JOB, c.job))
        with self.assertRaises((LinkLost, BrokenPipeError, ConnectionResetError)):
            for _ in range(3):  # 64 KiB of it go into the pipe, and come back as credit at most
                c.send(frame(FRAME_DATA, stream, bytes(200000)))
            c.read_frame(2)

    def test_a_stream_in_use_cannot_be_opened(self):
        c = self.agent.client()
        stream = c.start("sleep 5")
        c.send(frame(FRAME_OPEN, stream, struct.pack(">H", OP_USAGE)))
        with self.assertRaises(LinkLost):
            c.read_frame(2)

    def test_unknown_operation(self):
        self.status(self.agent.client().call(999), "WIRE_UNSUPPORTED")

    def test_unknown_tags_are_skipped(self):
        c = self.agent.client()
        self.assertEqual(self.ok(c.run("echo a", more=tlv(60000, b"x"))).stdout, b"a\n")

    def test_frames_of_streams_that_are_no_more(self):
        c = self.agent.client()
        for kind, payload in ((FRAME_DATA, b"x"), (FRAME_CREDIT, bytes(4)), (FRAME_RESET, b"\0\0"),
                              (FRAME_MSG, b"")):
            c.send(frame(kind, 77, payload))
        self.ok(c.call(OP_USAGE))

    def test_ping(self):
        c = self.agent.client()
        c.send(frame(FRAME_PING, 5, b"hello"))
        self.assertEqual(c.read_frame(), (FRAME_PONG, 0, 5, b"hello"))

    def test_broken_messages(self):
        c = self.agent.client()
        for op in (OP_JOB_START, OP_JOB_WAIT, OP_JOB_READ, OP_JOB_SIGNAL, OP_KERNEL_START,
                   OP_KERNEL_STOP, OP_LEASE):
            with self.subTest(op):
                self.status(c.call(op), "WIRE_BAD_REQUEST")
                self.status(c.call(op, b"\0\1\xff\xff\xff\xff"), "WIRE_BAD_REQUEST")

    def test_a_stream_reset_ends_the_waiting_not_the_job(self):
        c = self.agent.client()
        stream = c.start("sleep 0.3; echo x")
        c.send(frame(FRAME_RESET, stream, b"\0\0"))
        self.assertEqual(self.ok(c.wait_job(c.job)).stdout, b"x\n")

    def test_too_many_streams(self):
        c = self.agent.client()
        c.start("sleep 5")
        with self.assertRaises((LinkLost, BrokenPipeError, ConnectionResetError)):
            for _ in range(256):
                c.open(OP_JOB_WAIT, tlv(TAG_JOB, c.job))
            c.read_frame(2)
        self.ok(self.agent.client().call(OP_USAGE))

    def test_a_broker_that_does_not_read_loses_the_link(self):
        c = self.agent.client()
        pings = frame(FRAME_PING, 0, bytes(64)) * 1000
        with self.assertRaises((BrokenPipeError, ConnectionResetError, TimeoutError)):
            c.socket.settimeout(5)
            for _ in range(200):
                c.send(pings)
        self.assertLess(self.agent.memory_kib(), 16 * 1024)
        self.ok(self.agent.client().call(OP_USAGE))

    def test_random_frames(self):
        rng = random.Random(20261129)
        ops = [v for k, v in globals().items() if k.startswith("OP_") and k != "OP_SHUTDOWN"]
        tags = [v for k, v in globals().items() if k.startswith("TAG_")]
        for _ in range(60):
            c = self.agent.client()
            try:
                for _ in range(40):
                    body = b"".join(
                        tlv(rng.choice(tags), rng.randbytes(rng.choice((0, 1, 2, 8, 16, 40))))
                        for _ in range(rng.randrange(6)))
                    if rng.random() < 0.2:
                        body = body[: rng.randrange(len(body) + 1)]
                    kind = rng.choice((FRAME_OPEN, FRAME_OPEN, FRAME_OPEN, FRAME_DATA, FRAME_CREDIT,
                                       FRAME_RESET, FRAME_MSG, FRAME_PING))
                    if kind == FRAME_OPEN:
                        body = struct.pack(">H", rng.choice(ops)) + body
                    c.send(frame(kind, rng.randrange(50), body, rng.choice((0, 1))))
            except (BrokenPipeError, ConnectionResetError):
                pass
            c.close()
        self.assertEqual(self.ok(self.agent.client().run("echo lives")).stdout, b"lives\n")


class Credit(Case):
    def test_data_stops_without_credit_and_others_go_on(self):
        c = self.agent.client()
        self.ok(c.run("head -c 1000000 /dev/urandom | tee copy", inline=0))
        c.give_credit = False
        job = c.job
        stream = c.open(OP_JOB_READ, tlv(TAG_JOB, job), tlv(TAG_CHANNEL, CHANNEL_STDOUT))
        answer = c.open_streams[stream]
        self.assertEqual(self.ok(c.run("echo meanwhile")).stdout, b"meanwhile\n")
        with self.assertRaises(TimeoutError):
            c.step(0.2)
        self.assertEqual(len(answer.data), WINDOW)
        c.send(frame(FRAME_CREDIT, stream, struct.pack(">I", 1000)))
        c.step()
        self.assertEqual(len(answer.data), WINDOW + 1000)
        c.send(frame(FRAME_CREDIT, stream, struct.pack(">I", 1 << 20)))
        self.ok(c.wait(stream))
        self.assertEqual(answer.data, open(f"{self.agent.workspace}/copy", "rb").read())

    def test_a_broker_that_reads_slowly_gets_everything(self):
        c = self.agent.client()
        self.ok(c.run("seq 1 600000", inline=0))
        stream = c.open(OP_JOB_READ, tlv(TAG_JOB, c.job), tlv(TAG_CHANNEL, CHANNEL_STDOUT))
        c.send(frame(FRAME_CREDIT, stream, struct.pack(">I", 1 << 29)))
        c.give_credit = False
        time.sleep(0.3)
        answer = c.wait(stream)
        self.assertEqual(answer.data, b"".join(b"%d\n" % i for i in range(1, 600001)))


class Jobs(Case):
    def setUp(self):
        super().setUp()
        self.c = self.agent.client()

    def run_ok(self, *args, **options):
        return self.ok(self.c.run(*args, **options))

    def test_streams_and_exit_code(self):
        r = self.run_ok("printf 'a\\n'; printf 'b\\n' >&2; printf 'c\\n'; exit 7")
        self.assertEqual((r.stdout, r.stderr, r.exit_code), (b"a\nc\n", b"b\n", 7))
        self.assertEqual((r.state, r.reason, r.evidence), (JOB_DONE, REASON_EXIT, EVIDENCE_MEASURED))
        self.assertEqual(r.text("command"), "printf 'a\\n'; printf 'b\\n' >&2; printf 'c\\n'; exit 7")
        self.assertLess(abs(r.started_us / 1e6 - time.time()), 5)

    def test_signal(self):
        r = self.run_ok("kill -SEGV $$")
        self.assertEqual((r.reason, r.signal, r.exit_code), (REASON_SIGNAL, 11, None))

    def test_a_program_that_is_not_there(self):
        r = self.status(self.c.run(argv=["no-such-program"]), "WIRE_NO_INTERPRETER")
        self.assertIn("no-such-program", r.text("text"))
        path = f"{self.agent.workspace}/script"
        with open(path, "w") as f:
            f.write("#!/no/such/interpreter\n")
        self.status(self.c.run(argv=[path]), "WIRE_NO_INTERPRETER")
        os.chmod(path, 0o755)
        r = self.status(self.c.run(argv=["./script"]), "WIRE_NO_INTERPRETER")
        self.assertIn("./script", r.text("text"))

    def test_the_same_failure_is_told_again(self):
        self.c.run(argv=["no-such-program"])
        self.status(self.c.wait_job(self.c.job), "WIRE_NO_INTERPRETER")

    def test_a_working_directory_that_is_not_there(self):
        r = self.status(self.c.run("pwd", cwd="/no/such"), "WIRE_NOT_DIRECTORY")
        self.assertIn("/no/such", r.text("text"))
        self.status(self.c.run("pwd", cwd="/etc/passwd"), "WIRE_NOT_DIRECTORY")

    def test_working_directory(self):
        os.mkdir(f"{self.agent.workspace}/sub")
        self.assertEqual(self.run_ok("pwd").stdout.decode().strip(), self.agent.workspace)
        self.assertEqual(self.run_ok("pwd", cwd="sub").stdout.decode().strip(),
                         self.agent.workspace + "/sub")

    def test_environment(self):
        value = "x y\"z'$HOME\n2"
        r = self.run_ok('printf %s "$A"', env=["A=" + value])
        self.assertEqual(r.stdout.decode(), value)
        r = self.run_ok(argv=["env"], env=["LANG=xx", "B=1", "B=2"])
        lines = r.stdout.decode().split("\n")
        self.assertEqual(sorted(lines),
                         sorted(["", "PATH=/usr/bin:/bin", "LANG=xx", "B=2",
                                 "HOME=" + self.agent.workspace]))
        self.status(self.c.run("true", env=["nonsense"]), "WIRE_BAD_REQUEST")

    def test_arguments_stay_as_they_are(self):
        r = self.run_ok(argv=["printf", "%s|", "a b", "", "$HOME", "\n", "é"])
        self.assertEqual(r.stdout.decode(), "a b||$HOME|\n|é|")

    def test_only_three_descriptors(self):
        r = self.run_ok(argv=["ls", "-l", "/proc/self/fd"])
        numbers = [line.split()[8] for line in r.stdout.decode().splitlines()[1:]]
        self.assertEqual(numbers, ["0", "1", "2", "3"])  # 3 is the directory that ls reads
        self.assertIn("0 -> /dev/null", r.stdout.decode())

    def test_own_session_and_no_blocked_signals(self):
        r = self.run_ok("ps -o pid=,sid=,pgid= -p $$; grep -E 'Sig(Blk|Ign)' /proc/self/status")
        pid, sid, pgid = r.stdout.split(b"\n")[0].split()
        self.assertEqual((pid, pid), (sid, pgid))
        for line in r.stdout.split(b"\n")[1:3]:
            self.assertEqual(int(line.split()[1], 16), 0)

    @unittest.skipUnless(platform.machine() == "x86_64", "numbers of system calls")
    def test_signals_that_libc_hides(self):
        # 32 and 33, which only the kernel's own calls reach: an agent inherits them, a job must not.
        libc, rt_sigaction, rt_sigprocmask = ctypes.CDLL(None), 13, 14
        ignored = struct.pack("QQQQ", signal.SIG_IGN, 0, 0, 0)
        mask = struct.pack("Q", 0b11 << 31)
        for number in (32, 33):
            self.assertEqual(libc.syscall(rt_sigaction, number, ignored, None, 8), 0)
        self.assertEqual(libc.syscall(rt_sigprocmask, signal.SIG_BLOCK, mask, None, 8), 0)
        try:
            agent = Agent()
            self.addCleanup(agent.stop)
        finally:
            self.assertEqual(libc.syscall(rt_sigprocmask, signal.SIG_UNBLOCK, mask, None, 8), 0)
        inherited = open(f"/proc/{agent.process.pid}/status").read()
        self.assertRegex(inherited, r"SigIgn:\t000000018000.000")
        r = self.ok(agent.client().run("grep -E 'Sig(Blk|Ign)' /proc/self/status"))
        for line in r.stdout.splitlines():
            self.assertEqual(int(line.split()[1], 16), 0)

    def test_stdin_is_empty(self):
        r = self.run_ok("cat; echo end")
        self.assertEqual(r.stdout, b"end\n")

    def test_stdin_open(self):
        stream = self.c.start("read a; read b; echo $a-$b; cat | wc -c", stdin=STDIN_OPEN)
        job = self.c.job
        self.assertEqual(self.ok(self.c.input(job, b"one\n", close=False)).length, 4)
        self.assertEqual(self.ok(self.c.input(job, b"two\n", close=False)).length, 4)
        self.assertEqual(self.ok(self.c.input(job, b"x" * 3000000)).length, 3000000)
        self.assertEqual(self.ok(self.c.wait(stream)).stdout, b"one-two\n3000000\n")
        self.status(self.c.input(job, b"more"), "WIRE_GONE")

    def test_input_that_nobody_reads_any_more(self):
        stream = self.c.start("exec <&-; sleep 0.5", stdin=STDIN_OPEN)
        time.sleep(0.2)
        self.status(self.c.input(self.c.job, b"x" * 100), "WIRE_GONE")
        self.ok(self.c.wait(stream))
        stream = self.c.start("sleep 0.4", stdin=STDIN_OPEN)
        r = self.status(self.c.input(self.c.job, b"x" * 200000), "WIRE_GONE")
        self.assertEqual(r.length, 65536)
        self.ok(self.c.wait(stream))

    def test_the_same_job_runs_once(self):
        job = os.urandom(16)
        command = "echo x >> runs; sleep 0.3; echo once"
        first = self.c.start(command, job=job)
        second = self.c.start(command, job=job, wait_ms=20000, inline=100)
        for stream in (first, second):
            self.assertEqual(self.ok(self.c.wait(stream)).stdout, b"once\n")
        self.assertEqual(self.run_ok(command, job=job).stdout, b"once\n")
        self.assertEqual(open(f"{self.agent.workspace}/runs").read(), "x\n")
        self.status(self.c.run("echo other", job=job), "WIRE_CONFLICT")
        self.status(self.c.run(command, job=job, env=["A=1"]), "WIRE_CONFLICT")

    def test_waiting_ends_the_job_goes_on(self):
        r = self.run_ok("echo early; sleep 0.5; echo late", wait_ms=100)
        self.assertEqual((r.state, r.stdout, r.reason), (JOB_RUNNING, b"early\n", None))
        job = self.c.job
        self.assertEqual(self.ok(self.c.wait_job(job, 0)).state, JOB_RUNNING)
        r = self.ok(self.c.wait_job(job))
        self.assertEqual((r.state, r.stdout), (JOB_DONE, b"early\nlate\n"))
        self.status(self.c.wait_job(os.urandom(16)), "WIRE_NOT_FOUND")

    def test_timeout_takes_the_whole_tree(self):
        s = unique_seconds()
        began = time.monotonic()
        r = self.run_ok(f"sh -c 'trap \"\" TERM INT; sleep {s} & setsid sleep {s} & wait'",
                        timeout_ms=1000)
        self.assertLess(time.monotonic() - began, 1.6)
        self.assertEqual((r.reason, r.evidence), (REASON_TIMEOUT, EVIDENCE_MEASURED))
        self.assertEqual(alive(s), [])

    def test_a_tree_that_flees_is_caught(self):
        # a double-forked process that hands over to a fresh one of its own session all the time
        code = ("import os,time\n"
                "if os.fork(): time.sleep(60)\n"
                "while True:\n"
                " os.setsid() if os.fork() == 0 else os._exit(0)\n"
                " time.sleep(0.002)\n")
        s = unique_seconds()
        r = self.run_ok(argv=["python3", "-c", code, s], timeout_ms=600)
        self.assertEqual(r.reason, REASON_TIMEOUT)
        self.assertEqual(alive(s), [])

    def test_cancel(self):
        s = unique_seconds()
        stream = self.c.start(f"sleep {s} & sleep {s}")
        until(lambda: len(alive(s)) >= 2)
        self.ok(self.c.signal(self.c.job, 0))
        r = self.ok(self.c.wait(stream))
        self.assertEqual((r.reason, r.evidence), (REASON_CANCELLED, EVIDENCE_MEASURED))
        self.assertEqual(alive(s), [])
        self.status(self.c.signal(self.c.job, 0), "WIRE_GONE")

    def test_signal_reaches_the_group(self):
        stream = self.c.start("trap 'echo got; exit 5' USR1; echo ready; while :; do sleep 0.05; done")
        self.assertTrue(until(lambda: b"ready" in self.c.read(self.c.job).data))
        self.ok(self.c.signal(self.c.job, 10))
        r = self.ok(self.c.wait(stream))
        self.assertEqual((r.exit_code, r.stdout), (5, b"ready\ngot\n"))
        self.status(self.c.signal(self.c.job, 65), "WIRE_BAD_REQUEST")

    def test_background_children_live_on(self):
        s = unique_seconds()
        began = time.monotonic()
        r = self.run_ok(f"sleep {s} & echo started")
        self.assertLess(time.monotonic() - began, 1)
        self.assertEqual((r.stdout, r.exit_code, r.notes), (b"started\n", 0, ["children_left:1"]))
        self.assertEqual(len(alive(s)), 1)
        self.ok(self.c.signal(self.c.job, 0))
        self.assertTrue(until(lambda: not alive(s)))
        self.assertEqual(self.ok(self.c.wait_job(self.c.job)).reason, REASON_EXIT)

    def test_output_of_background_children_is_kept(self):
        r = self.run_ok("(sleep 0.3; echo late) & echo now")
        self.assertEqual(r.stdout, b"now\n")
        job = self.c.job
        self.assertTrue(until(lambda: self.c.read(job).data == b"now\nlate\n"))

    def test_a_child_that_never_stops_printing_holds_nobody(self):
        began = time.monotonic()
        r = self.run_ok("yes & echo started", inline=100)
        self.assertLess(time.monotonic() - began, 1)
        self.assertIn("children_left:1", r.notes)
        self.ok(self.c.signal(self.c.job, 9))
        self.assertTrue(until(lambda: self.c.signal(self.c.job, 0).status == WIRE_GONE))

    def test_code_that_kills_its_supervisor(self):
        r = self.run_ok("kill -9 $PPID; sleep 0.2; echo still here; exit 4")
        self.assertEqual((r.stdout, r.exit_code, r.reason), (b"still here\n", 4, REASON_EXIT))
        s = unique_seconds()
        r = self.run_ok(f"kill -9 $PPID; setsid sleep {s} & sleep {s}", timeout_ms=500)
        self.assertEqual(r.reason, REASON_TIMEOUT)
        self.assertEqual(alive(s), [])

    def test_code_that_stops_its_supervisor(self):
        s = unique_seconds()
        began = time.monotonic()
        r = self.run_ok(f"kill -STOP $PPID; sleep {s}", timeout_ms=300)
        self.assertEqual(r.reason, REASON_TIMEOUT)
        self.assertLess(time.monotonic() - began, 3)
        self.assertEqual(alive(s), [])

    def test_orphans_of_a_killed_supervisor_end_with_the_agent(self):
        s = unique_seconds()
        self.run_ok(f"kill -9 $PPID; setsid sleep {s} & sleep 0.1")
        self.assertEqual(len(alive(s)), 1)
        self.assertEqual(self.agent.stop(), 0)
        self.assertEqual(alive(s), [])

    def test_two_at_once(self):
        began = time.monotonic()
        streams = [self.c.start("sleep 0.5; echo $$") for _ in range(2)]
        for stream in streams:
            self.ok(self.c.wait(stream))
        self.assertLess(time.monotonic() - began, 0.95)

    def test_bytes_come_back_exactly(self):
        r = self.run_ok("head -c 5000000 /dev/urandom | tee copy")
        copy = open(f"{self.agent.workspace}/copy", "rb").read()
        self.assertEqual(r.stdout_total, 5000000)
        self.assertEqual(r.bytes_("stdout_head"), copy[:32768])
        self.assertEqual(r.bytes_("stdout_tail"), copy[-32768:])
        whole = self.c.read(self.c.job)
        self.assertEqual(whole.data, copy)
        self.assertEqual((whole.end.total, whole.end.offset, whole.end.state), (5000000, 0, JOB_DONE))
        self.assertEqual(self.c.read(self.c.job, offset=1234567, length=100).data,
                         copy[1234567:1234667])
        self.assertEqual(self.c.read(self.c.job, offset=6000000).data, b"")

    def test_order_of_arrival(self):
        self.run_ok("for i in 1 2 3; do echo o$i; sleep 0.03; echo e$i >&2; sleep 0.03; done")
        both = self.c.read(self.c.job, CHANNEL_BOTH)
        pieces = [(m.channel, m.bytes_("bytes")) for m in both.msgs]
        self.assertEqual(pieces, [(1, b"o1\n"), (2, b"e1\n"), (1, b"o2\n"), (2, b"e2\n"),
                                  (1, b"o3\n"), (2, b"e3\n")])
        self.assertEqual([m.offset for m in both.msgs], [0, 0, 3, 3, 6, 6])
        times = [m.time_us for m in both.msgs]
        self.assertEqual(times, sorted(times))
        self.assertEqual(both.end.total, 18)
        part = self.c.read(self.c.job, CHANNEL_BOTH, offset=4, length=4)
        self.assertEqual([(m.channel, m.offset, m.bytes_("bytes")) for m in part.msgs],
                         [(2, 1, b"1\n"), (1, 3, b"o2")])

    def test_a_program_that_prints_without_end(self):
        for timeout_ms in (1500, 6000, 24000):  # on a busy machine it takes longer
            r = self.run_ok("yes 0123456789abcde", timeout_ms=timeout_ms)
            self.assertEqual(r.reason, REASON_TIMEOUT)
            total = r.stdout_total
            if total > 64 << 20:
                break
        else:
            self.skipTest(f"a program printed {total >> 20} MiB only in {timeout_ms} ms")
        self.assertEqual(r.stdout_lost, total - (64 << 20))
        self.assertLess(self.agent.memory_kib(), 72 * 1024)
        line = b"0123456789abcde\n"
        end = self.c.read(self.c.job, offset=(8 << 20) - 20, length=100)
        self.assertEqual(end.data, (line * 3)[-20:])  # up to the hole
        self.assertEqual((end.end.lost_offset, end.end.length), (8 << 20, r.stdout_lost))
        after = self.c.read(self.c.job, offset=9 << 20, length=64)
        start = total - (56 << 20)
        self.assertEqual(after.end.offset, start)
        self.assertEqual(after.data, (line * 6)[start % 16 : start % 16 + 64])
        both = self.c.read(self.c.job, CHANNEL_BOTH, offset=9 << 20, length=64)
        self.assertEqual((both.end.offset, both.msgs[0].offset), (start, start))

    def test_list(self):
        self.run_ok("true")
        first = self.c.job
        self.c.start("sleep 5")
        jobs = self.c.call(OP_JOB_LIST).msgs
        self.assertEqual([m.bytes_("job") for m in jobs], [first, self.c.job])
        self.assertEqual([m.state for m in jobs], [JOB_DONE, JOB_RUNNING])
        self.assertEqual(jobs[1].text("command"), "sleep 5")

    def test_old_jobs_go_and_running_ones_are_bounded(self):
        self.run_ok("echo first")
        first = self.c.job
        streams = [self.c.start(argv=["sleep", "60"]) for _ in range(64)]
        kept = self.c.job
        self.status(self.c.run("true"), "WIRE_LIMIT")
        self.ok(self.c.signal(kept, 0))
        self.ok(self.c.wait(streams.pop()))
        for _ in range(192):
            self.run_ok(argv=["true"], inline=0)
        self.status(self.c.wait_job(first), "WIRE_NOT_FOUND")
        self.assertEqual(len(self.c.call(OP_JOB_LIST).msgs), 256)

    def test_usage(self):
        self.run_ok("seq 1 100000", inline=0)
        r = self.ok(self.c.call(OP_USAGE))
        self.assertGreater(r.disk_total, r.disk_free)
        self.assertGreaterEqual(r.spool, 588895)

    def test_search(self):
        self.run_ok("seq 1 200000; echo needle-err >&2", inline=0)
        hits = self.c.call(OP_JOB_SEARCH, tlv(TAG_JOB, self.c.job), tlv(TAG_CHANNEL, CHANNEL_BOTH),
                           tlv(TAG_PATTERN, b"77777"))
        self.ok(hits)
        self.assertEqual([m.text("line_text") for m in hits.msgs], ["77777", "177777"])
        text = self.c.read(self.c.job).data
        for m in hits.msgs:
            self.assertEqual(m.channel, CHANNEL_STDOUT)
            self.assertEqual(text[m.offset : m.offset + 5], b"77777")
        hits = self.c.call(OP_JOB_SEARCH, tlv(TAG_JOB, self.c.job), tlv(TAG_CHANNEL, CHANNEL_BOTH),
                           tlv(TAG_PATTERN, b"9"), tlv(TAG_LIMIT, 3))
        self.assertEqual((len(hits.msgs), hits.end.count, hits.end.more), (3, 3, 1))
        hits = self.c.call(OP_JOB_SEARCH, tlv(TAG_JOB, self.c.job), tlv(TAG_CHANNEL, CHANNEL_STDERR),
                           tlv(TAG_PATTERN, b"needle"))
        self.assertEqual([m.text("line_text") for m in hits.msgs], ["needle-err"])
        self.status(self.c.call(OP_JOB_SEARCH, tlv(TAG_JOB, self.c.job)), "WIRE_BAD_REQUEST")


class SmallSpool(Case):
    boot = (tlv(BOOT_SPOOL_HEAD, 100000), tlv(BOOT_SPOOL_TAIL, 200000),
            tlv(BOOT_SPOOL_SESSION, 1000000))

    def test_all_jobs_together_are_bounded(self):
        c = self.agent.client()
        jobs = []
        for _ in range(8):
            self.ok(c.run("seq 1 100000", inline=0))
            jobs.append(c.job)
        self.assertLessEqual(self.ok(c.call(OP_USAGE)).spool, 1000000)
        self.assertEqual(c.read(jobs[0]).status_name, "WIRE_GONE")
        text = b"".join(b"%d\n" % i for i in range(1, 100001))
        r = c.read(jobs[-1], length=1000)
        self.assertEqual(r.data, text[:1000])
        self.assertEqual(c.read(jobs[-1], offset=150000).data, text[-200000:])


class Kernels(Case):
    def setUp(self):
        super().setUp()
        self.c = self.agent.client()

    def kernel(self, *env):
        return self.ok(self.c.start_kernel(TEST_KERNEL, env=env))

    def cell(self, code, **options):
        return self.ok(self.c.run_cell(code, **options))

    def test_a_cell(self):
        r = self.kernel("START_DELAY=0.2")
        self.assertEqual((r.generation, r.created), (1, 1))
        r = self.cell("say hello")
        self.assertEqual((r.stdout, r.exit_code, r.reason), (b"hello", 0, REASON_EXIT))
        self.assertEqual((r.evidence, r.generation, r.text("kernel")), (EVIDENCE_REPORTED, 1, "k"))
        self.assertEqual(self.kernel("START_DELAY=0.2").created, 0)
        m = self.c.call(OP_KERNEL_LIST).msgs[0]
        self.assertEqual((m.text("kernel"), m.text("language"), m.text("engine"), m.busy, m.count),
                         ("k", "test", "plain", 0, 0))
        self.assertGreater(m.pid, 0)

    def test_definitions(self):
        self.kernel()
        self.status(self.c.start_kernel(["/bin/true"]), "WIRE_CONFLICT")
        self.status(self.c.run_cell("say x", kernel="other"), "WIRE_NOT_FOUND")
        for i in range(15):
            self.ok(self.c.start_kernel(["/bin/cat"], kernel=f"n{i}"))
        self.status(self.c.start_kernel(["/bin/cat"], kernel="n15"), "WIRE_LIMIT")

    def test_output_is_never_late(self):
        self.kernel()
        for _ in range(50):
            self.assertEqual(self.cell("late").stdout_total, 60000)

    def test_cells_wait_in_order(self):
        self.kernel("START_DELAY=0.3")
        streams = [self.c.cell(f"say {i}") for i in range(16)]
        self.status(self.c.run_cell("say 16"), "WIRE_LIMIT")
        for i, stream in enumerate(streams):
            self.assertEqual(self.ok(self.c.wait(stream)).stdout, b"%d" % i)

    def test_a_queued_cell_says_so_and_can_be_taken_out(self):
        self.kernel()
        self.cell("say up")
        self.c.cell("spin")
        self.c.cell("say a")
        second = self.ok(self.c.run_cell("say b", wait_ms=50))
        self.assertEqual((second.state, second.queue_position), (JOB_QUEUED, 2))
        self.ok(self.c.signal(self.c.job, 0))
        r = self.ok(self.c.wait_job(self.c.job))
        self.assertEqual((r.reason, r.state, r.started_us), (REASON_CANCELLED, JOB_DONE, None))

    def test_results(self):
        self.kernel()
        answer = self.c.run_cell("show 3")
        self.assertEqual([m.bytes_("mime_data") for m in answer.msgs], [b"0", b"1", b"2"])
        again = self.c.wait_job(self.c.job)
        self.assertEqual(len(again.msgs), 3)

    def test_results_are_bounded(self):
        self.kernel()
        answer = self.c.run_cell("show 100")
        self.assertEqual(len(answer.msgs), 64)
        self.assertTrue(any(n.startswith("result_dropped") for n in answer.end.notes))
        answer = self.c.run_cell("big 30")
        self.assertLessEqual(sum(len(m.bytes_("mime_data")) for m in answer.msgs), 4 << 20)
        self.assertGreater(len(answer.msgs), 15)

    def test_a_kernels_death_in_a_cell(self):
        self.kernel()
        self.ok(self.c.start_kernel(PYTHON_KERNEL, kernel="p"))
        r = self.cell("import os; print('before', flush=True); os._exit(3)", kernel="p")
        self.assertEqual((r.reason, r.evidence, r.exit_code, r.stdout),
                         (REASON_INTERPRETER_DIED, EVIDENCE_MEASURED, 3, b"before\n"))
        r = self.cell("1", kernel="p")
        self.assertEqual((r.reason, r.generation, r.created), (REASON_EXIT, 2, 1))
        r = self.cell("import os; os.kill(os.getpid(), 9)", kernel="p")
        self.assertEqual((r.reason, r.signal), (REASON_INTERPRETER_DIED, 9))

    def test_a_kernels_death_between_cells(self):
        self.kernel()
        self.cell("last")
        self.assertTrue(until(lambda: self.c.call(OP_USAGE) and self.c.events))
        number_, event = self.c.events[0]
        self.assertEqual((number_, event.text("kernel"), event.generation, event.exit_code),
                         (EVENT_KERNEL_EXIT, "k", 1, 0))
        self.assertEqual(self.cell("say x").generation, 2)

    def test_a_kernel_that_cannot_start(self):
        self.ok(self.c.start_kernel(["/no/such/python"]))
        r = self.status(self.c.run_cell("1"), "WIRE_NO_INTERPRETER")
        self.assertIn("/no/such/python", r.text("text"))
        self.ok(self.c.start_kernel(TEST_KERNEL, kernel="e", env=["START_EXIT=9"]))
        r = self.cell("say x", kernel="e")
        self.assertEqual((r.reason, r.exit_code), (REASON_INTERPRETER_DIED, 9))

    def test_timeout_by_the_ladder(self):
        self.kernel()
        began = time.monotonic()
        r = self.cell("spin", timeout_ms=300)
        took = time.monotonic() - began
        self.assertTrue(5 < took < 6.5, took)
        self.assertEqual((r.reason, r.evidence, r.notes),
                         (REASON_TIMEOUT, EVIDENCE_MEASURED, ["kernel_killed"]))
        r = self.cell("say x")
        self.assertEqual((r.generation, r.created), (2, 1))

    def test_stop(self):
        self.kernel()
        self.cell("background")
        self.assertEqual(len(alive(TEST_KERNEL[1])), 2)
        running = self.c.cell("spin")
        waiting = self.c.cell("say x")
        self.ok(self.c.call(OP_KERNEL_STOP, tlv(TAG_KERNEL, "k")))
        for stream in (running, waiting):
            r = self.ok(self.c.wait(stream))
            self.assertEqual((r.reason, r.notes), (REASON_CANCELLED, ["kernel_stopped"]))
        self.assertEqual(alive(TEST_KERNEL[1]), [])
        self.ok(self.c.call(OP_KERNEL_STOP, tlv(TAG_KERNEL, "k")))
        self.assertEqual(self.cell("say x").generation, 2)

    def test_what_a_hostile_kernel_says(self):
        self.kernel()
        for text in ("00" * 12, "0163" + "00" * 10, "010e" + "00" * 10, "0111" + "00" * 10,
                     "0110" + "00" * 6 + "00000003" + "ffffff", "010f0000000000000fffffff",
                     "01100000000000000000000 0".replace(" ", "") + "01", "aa"):
            with self.subTest(text):
                r = self.cell("raw " + text)
                self.assertEqual(r.reason, REASON_INTERPRETER_DIED)
                self.assertIn("kernel_broke_protocol", r.notes)
        self.cell("twice")  # harms its own next cell, at most
        self.cell("say x")
        self.ok(self.c.call(OP_KERNEL_STOP, tlv(TAG_KERNEL, "k")))
        self.assertEqual(self.cell("say lives").stdout, b"lives")

    def test_errors_are_clipped(self):
        self.kernel()
        r = self.cell("nonsense")
        self.assertEqual((r.exit_code, len(r.bytes_("error_name"))), (1, 256))
        self.assertLessEqual(len(r.bytes_("error_message")), 64 * 1024)

    def test_input_of_a_cell(self):
        self.kernel()
        stream = self.c.cell("echo", stdin=STDIN_OPEN)
        data = os.urandom(500000)
        job = self.c.job
        self.ok(self.c.input(job, data[:1000], close=False))
        self.ok(self.c.input(job, data[1000:]))
        self.assertEqual(self.ok(self.c.wait(stream)).stdout_total, 500000)
        self.assertEqual(self.c.read(job).data, data)
        self.cell("say x")
        self.status(self.c.input(self.c.job, b"x"), "WIRE_GONE")

    def test_descriptors_of_a_kernel(self):
        self.ok(self.c.start_kernel(["/usr/bin/python3", "-c", "import os,struct,time\n"
            "fds=' '.join(sorted(os.listdir('/proc/self/fd')))\n"
            "def f(k,p=b''): os.write(3,struct.pack('>BBHII',1,k,0,0,len(p))+p)\n"
            "f(17); os.read(3,9999); print(fds, os.readlink('/proc/self/fd/0'), flush=True)\n"
            "f(16, struct.pack('>HI',144,1)+b'\\0'); time.sleep(60)"]))
        self.assertEqual(self.cell("x").stdout, b"0 1 2 3 4 /dev/null\n")


class PythonKernel(Case):
    def setUp(self):
        super().setUp()
        self.c = self.agent.client()
        self.ok(self.c.start_kernel(PYTHON_KERNEL))

    def cell(self, code, **options):
        return self.ok(self.c.run_cell(code, **options))

    def test_state_and_result(self):
        self.cell("x = 41")
        answer = self.c.run_cell("x + 1")
        data = dict(zip(answer.msgs[0].all("mime"), answer.msgs[0].all("mime_data")))
        self.assertEqual(data[b"text/plain"], b"42")

    def test_timeout_keeps_the_state(self):
        self.cell("x = 41")
        began = time.monotonic()
        r = self.cell("while True: pass", timeout_ms=500)
        self.assertLess(time.monotonic() - began, 1.5)
        self.assertEqual((r.reason, r.notes), (REASON_TIMEOUT, []))
        self.assertEqual(self.cell("print(x + 1)").stdout, b"42\n")

    def test_interrupt_and_cancel(self):
        self.cell("x = 1")
        for act in (lambda: self.c.call(OP_KERNEL_INTERRUPT, tlv(TAG_KERNEL, "k")),
                    lambda: self.c.signal(self.c.job, 0)):
            stream = self.c.cell("import time; print('in', flush=True); time.sleep(60)")
            self.assertTrue(until(lambda: self.c.read(self.c.job).data == b"in\n"))
            self.ok(act())
            r = self.ok(self.c.wait(stream))
            self.assertEqual((r.reason, r.evidence), (REASON_CANCELLED, EVIDENCE_MEASURED))
        self.assertEqual(self.cell("print(x)").stdout, b"1\n")

    def test_interrupting_an_idle_kernel_hurts_nobody(self):
        self.cell("1")
        for _ in range(20):
            self.ok(self.c.call(OP_KERNEL_INTERRUPT, tlv(TAG_KERNEL, "k")))
            self.assertEqual(self.cell("print('fine')").stdout, b"fine\n")

    def test_exit(self):
        r = self.cell("import sys; sys.exit(2)")
        self.assertEqual((r.reason, r.exit_code), (REASON_EXIT, 2))
        self.assertEqual(self.cell("1").generation, 1)

    def test_error(self):
        r = self.cell("1/0")
        self.assertEqual((r.exit_code, r.text("error_name")), (1, "ZeroDivisionError"))
        self.assertIn("ZeroDivisionError", r.text("traceback") + r.text("error_name"))

    def test_input(self):
        stream = self.c.cell("print('got', input())", stdin=STDIN_OPEN)
        self.ok(self.c.input(self.c.job, b"line\n"))
        self.assertEqual(self.ok(self.c.wait(stream)).stdout, b"got line\n")
        self.assertEqual(self.cell("input()").exit_code, 1)


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
