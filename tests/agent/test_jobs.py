#!/usr/bin/python3
"""The real scb-agent, unconfined, driven over its link: jobs and their output."""

import ctypes
import platform

from agentcase import *  # noqa: F403


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
        self.assertRegex(inherited, r"SigIgn:\t000000018000.00.")
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

    def test_other_content_is_told_at_any_time(self):
        def check(command, job):
            self.status(self.c.run("echo other", job=job), "WIRE_CONFLICT")
            self.run_ok(command, job=job)

        jobs = [("true " + "x" * n, os.urandom(16)) for n in (1, 100000)]
        for command, job in jobs:
            stream = self.c.start(command, job=job)
            check(command, job)
            self.ok(self.c.wait(stream))
            time.sleep(0.05)  # the agent has had time for what it puts off
            check(command, job)
            self.run_ok("true")
        for command, job in jobs:
            check(command, job)

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
        for _ in range(100):  # as its first act, and over at once: its end is known nevertheless
            r = self.run_ok("kill -9 $PPID; exit 4")
            self.assertEqual((r.exit_code, r.reason), (4, REASON_EXIT))
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
        kept = 0  # of the tries before, KiB
        for timeout_ms in (1500, 6000, 24000):  # on a busy machine it takes longer
            r = self.run_ok("yes 0123456789abcde", timeout_ms=timeout_ms)
            self.assertEqual(r.reason, REASON_TIMEOUT)
            total = r.stdout_total
            if total > 64 << 20:
                break
            kept += total >> 10
        else:
            self.skipTest(f"a program printed {total >> 20} MiB only in {timeout_ms} ms")
        self.assertEqual(r.stdout_lost, total - (64 << 20))
        self.assertLess(self.agent.memory_kib(), 72 * 1024 + kept)
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


if __name__ == "__main__":
    tap.main()
