#!/usr/bin/python3
"""The real scb-agent and the real Python kernel: live forks."""

from agentcase import *  # noqa: F403

import subprocess

# What siblings must not have in common. Loaded, and used once, before they are forked.
LOAD = """
import multiprocessing.synchronize, random, secrets, ssl, tempfile, uuid
try:
    import numpy as np
except ImportError:
    np = None
random.random(); uuid.uuid1(); uuid.uuid4(); ssl.RAND_bytes(8); secrets.token_hex(8); tempfile.mktemp()
multiprocessing.Lock()
if np: np.random.rand()
def draw():
    found = {
        "random": random.random(), "uuid1": str(uuid.uuid1())[9:], "uuid4": str(uuid.uuid4()),
        "ssl": ssl.RAND_bytes(8).hex(), "secrets": secrets.token_hex(8),
        "tempfile": tempfile.mktemp(), "semaphore": multiprocessing.synchronize.SemLock._make_name(),
        "authkey": bytes(multiprocessing.current_process().authkey).hex(),
    }
    if np:
        found["numpy"] = np.random.rand()
        found["default_rng"] = np.random.default_rng().random()
    return found
"""

CHILDREN = "open(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read()"
# Of the main thread: its number, and (by rseq) the processor that it runs on, as the C library has them.
THREAD = """
import ctypes, threading
libc, at = ctypes.CDLL(None), ctypes.c_void_p()
libc.prctl(40, ctypes.byref(at), 0, 0, 0)
def runs_on(cpu):
    os.sched_setaffinity(0, [cpu])
    return libc.sched_getcpu() == cpu
mine = os.sched_getaffinity(0)
[ctypes.c_int.from_address(at.value).value == threading.get_native_id() == os.getpid(), all(map(runs_on, mine))]
"""
# A seccomp filter: clone() without the flag fails with EAGAIN.
REFUSE_CLONE = """
import ctypes, struct
clone = 56 if os.uname().machine == 'x86_64' else 220
rules = [(0x20, 0, 0, 0), (0x15, 0, 3, clone), (0x20, 0, 0, 16), (0x45, 1, 0, {flag}), (0x06, 0, 0, 0x5000b),
         (0x06, 0, 0, 0x7fff0000)]
program = ctypes.create_string_buffer(b''.join(struct.pack('=HBBI', *rule) for rule in rules))
head = ctypes.create_string_buffer(struct.pack('=H6xQ', len(rules), ctypes.addressof(program)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, head, 0, 0) == 0
"""


class Twins(Case):
    def setUp(self):
        super().setUp()
        self.c = self.agent.client()
        self.ok(self.c.start_kernel(PYTHON_KERNEL))
        self.cell("import os, time; x = 5")

    def cell(self, code, **options):
        end = self.ok(self.c.run_cell(code, **options))
        if end.reason_name == "REASON_EXIT":
            self.assertEqual(end.exit_code, 0, end)
        return end

    def value(self, code, kernel="k"):
        answer = self.c.run_cell(code, kernel=kernel)
        self.ok(answer)
        self.assertEqual(len(answer.msgs), 1, answer)
        return answer.msgs[0].text("mime_data")

    def fork(self, kernel="k", name="k-2", more=b""):
        return self.c.call(OP_KERNEL_FORK, tlv(TAG_KERNEL, kernel), tlv(TAG_TARGET, name), more)

    def twin(self, kernel="k", name="k-2"):
        return self.ok(self.fork(kernel, name))

    def refused(self, answer, status, words):
        end = self.status(answer, status)
        self.assertIn(words, end.text("text"))

    def stop(self, kernel):
        self.ok(self.c.call(OP_KERNEL_STOP, tlv(TAG_KERNEL, kernel)))

    def kernels(self):
        return {m.text("kernel"): m for m in self.c.call(OP_KERNEL_LIST).msgs}

    # ---- what a twin is ----

    def test_it_keeps_variables_and_directory_and_goes_its_own_way(self):
        self.cell("os.mkdir('sub'); os.chdir('sub'); data = [1, 2]; def f(): return data" .replace("; def", "\ndef"))
        self.twin()
        self.assertEqual(self.value("x, f(), os.path.basename(os.getcwd())", "k-2"), "(5, [1, 2], 'sub')")
        self.cell("x = 6; data.append(3)", kernel="k-2")
        self.cell("x = 7; os.chdir('..')")
        self.assertEqual(self.value("x, data, os.path.basename(os.getcwd())", "k-2"), "(6, [1, 2, 3], 'sub')")
        self.assertEqual(self.value("x, data"), "(7, [1, 2])")

    def test_it_is_a_kernel_of_its_own(self):
        self.assertEqual(self.twin().generation, 1)
        m = self.kernels()["k-2"]
        self.assertEqual((m.generation, m.text("language"), m.busy), (1, "python", 0))
        self.assertNotEqual(m.pid, self.kernels()["k"].pid)
        self.assertEqual(self.cell("print('from the twin')", kernel="k-2").stdout, b"from the twin\n")
        self.assertEqual(self.cell("import sys; sys.stderr.write('e')", kernel="k-2").stderr, b"e")
        slow = self.c.cell("time.sleep(30)", kernel="k-2")
        self.assertEqual(self.value("x"), "5")  # not behind the twin's cell
        self.ok(self.c.call(OP_KERNEL_INTERRUPT, tlv(TAG_KERNEL, "k-2")))
        self.assertEqual(self.ok(self.c.wait(slow)).reason_name, "REASON_CANCELLED")
        self.assertEqual(self.value("x", "k-2"), "5")

    def test_children_of_a_kernel_see_nothing_of_it(self):
        self.twin()
        self.assertEqual(self.cell(
            "try: os.wait()\nexcept ChildProcessError as e: print(e.errno)").stdout, b"10\n")
        self.assertEqual(self.value(CHILDREN), "''")

    def test_its_thread_is_known_to_the_c_library(self):
        self.twin()
        self.assertEqual(eval(self.value(THREAD, "k-2")), [True, True])

    def test_siblings_differ(self):
        self.cell(LOAD)
        for name in ("k-2", "k-3"):
            self.twin(name=name)
        drawn = [eval(self.value("draw()", name)) for name in ("k", "k-2", "k-3")]
        for what in drawn[0]:
            self.assertEqual(len({str(d[what]) for d in drawn}), 3, (what, drawn))

    def test_awaits_in_both(self):
        self.cell("import asyncio; await asyncio.sleep(0)")
        self.twin()
        for kernel in ("k-2", "k", "k-2"):
            self.assertEqual(self.value("await asyncio.sleep(0.01, 'slept')", kernel), "'slept'")
            self.assertEqual(
                self.value("asyncio.get_event_loop().run_until_complete(asyncio.sleep(0, 1))", kernel), "1")

    def test_it_can_fork_children(self):
        self.twin()
        for kernel in ("k", "k-2"):
            code = ("import multiprocessing as m, subprocess as s\n"
                    "with m.Pool(2) as p: print(p.map(abs, [-1, -2]))\n"
                    "print(s.run(['echo', 'hi'], capture_output=True).stdout)")
            self.assertEqual(self.cell(code, kernel=kernel).stdout, b"[1, 2]\nb'hi\\n'\n")

    def test_what_is_shared_is_named(self):
        self.assertEqual(self.twin(name="none").notes, [])
        self.cell("f = open('shared.txt', 'w'); import socket; s = socket.socket(); r, w = os.pipe()")
        notes = self.twin().notes
        self.assertEqual(notes, [f"shared_file:{self.agent.workspace}/shared.txt", "shared_sockets:1",
                                 "shared_pipes:2"])

    def test_the_supervisor_keeps_nothing_of_the_memory(self):
        self.cell("data = bytearray(os.urandom(1)) * 50_000_000")
        self.twin()
        self.assertEqual(self.value("len(data)", "k-2"), "50000000")
        pid = self.kernels()["k-2"].pid
        self.assertLess(private_kib(pid), 20_000)
        parent = int(self.value("os.getppid()", "k-2"))
        self.assertLess(private_kib(parent), 200)
        self.stop("k")
        self.assertGreater(private_kib(pid), 48_000)  # it has them alone now, and no copy of them

    # ---- ends ----

    def test_each_ends_alone(self):
        self.twin()
        self.stop("k-2")
        self.assertEqual(self.value("x"), "5")
        self.twin(name="k-3")
        self.stop("k")
        self.assertEqual(self.value("x", "k-3"), "5")
        self.cell("print(1)", kernel="k")  # a new one
        self.assertEqual(self.kernels()["k"].generation, 2)

    def test_a_kernel_that_dies_leaves_its_twin(self):
        self.twin()
        self.assertEqual(self.cell("os._exit(3)").reason_name, "REASON_INTERPRETER_DIED")
        self.assertEqual(self.value("x", "k-2"), "5")
        self.twin("k-2", "k-3")
        end = self.cell("os._exit(4)", kernel="k-2")
        self.assertEqual((end.reason_name, end.exit_code), ("REASON_INTERPRETER_DIED", 4))
        self.assertEqual(self.value("x", "k-3"), "5")
        self.assertEqual(self.cell("'x' in globals()", kernel="k-2").created, 1)

    def test_generations_of_twins_end_in_any_order(self):
        for order in (("k-2", "k", "k-4"), ("k", "k-2", "k-4"), ("k-4", "k-2", "k"), ("k-2", "k-4", "k")):
            self.cell("x = 5")
            self.twin("k", "k-2")
            self.twin("k-2", "k-3")
            self.twin("k", "k-4")
            left = {"k", "k-2", "k-3", "k-4"}
            for kernel in order:
                self.stop(kernel)
                left.remove(kernel)
                for other in left:
                    self.assertEqual(self.value("x", other), "5", (order, kernel))
            # Its supervisor dies, so that the agent itself ends what is left.
            self.c.run("kill -9 $PPID; sleep 60", timeout_ms=200)
            self.assertEqual(self.value("x", "k-3"), "5", order)
            self.stop("k-3")

    def test_each_tree_is_its_own(self):
        seconds = {"k": unique_seconds(), "k-2": unique_seconds()}
        self.twin()
        for kernel, argument in seconds.items():
            self.cell(f"import subprocess; p = subprocess.Popen(['setsid', '-f', 'sleep', '{argument}']); p.wait()",
                      kernel=kernel)
        self.assertTrue(until(lambda: all(len(alive(s)) == 1 for s in seconds.values())))
        self.stop("k-2")
        self.assertEqual([len(alive(seconds["k"])), len(alive(seconds["k-2"]))], [1, 0])
        self.twin(name="k-2")
        self.cell(f"p = subprocess.Popen(['setsid', '-f', 'sleep', '{seconds['k-2']}']); p.wait()", kernel="k-2")
        self.stop("k")
        self.assertEqual([len(alive(seconds["k"])), len(alive(seconds["k-2"]))], [0, 1])

    def test_all_end_with_the_agent(self):
        marker = unique_seconds()
        self.cell(f"import ctypes; ctypes.CDLL(None).prctl(15, b'{marker[-8:]}')")
        self.twin()
        self.twin("k-2", "k-3")
        self.stop("k")
        pids = [m.pid for m in self.kernels().values() if m.pid]
        self.assertEqual(len(pids), 2)
        self.agent.stop()
        self.assertTrue(until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids)))

    def test_no_descriptor_is_left(self):
        self.twin()
        self.stop("k-2")
        kernel = self.kernels()["k"].pid
        before = descriptors(self.agent.process.pid), descriptors(kernel)
        for _ in range(5):
            self.twin()
            self.assertEqual(self.value("len(os.listdir('/proc/self/fd')) - 1", "k-2"), str(before[1]))
            self.stop("k-2")
        self.assertTrue(until(lambda: (descriptors(self.agent.process.pid), descriptors(kernel)) == before))

    # ---- refusals ----

    def test_threads_are_named(self):
        self.cell("import threading; e = threading.Event()\n"
                  "t = threading.Thread(target=e.wait, name='fetcher'); t.start()")
        self.refused(self.fork(), "WIRE_DENIED", "fetcher")
        self.cell("e.set(); t.join()")
        self.twin()

    def test_native_threads_are_named(self):
        library = os.path.join(self.agent.workspace, "busy.so")
        source = "#include <pthread.h>\n#include <unistd.h>\nstatic void *f(void *p) { sleep(60); return p; }\n" \
                 "void go(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_setname_np(t, \"blaster\"); }\n"
        subprocess.run(["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, "-x", "c", "-"],
                       input=source.encode(), check=True)
        self.cell("import ctypes; ctypes.CDLL('./busy.so').go()")
        self.refused(self.fork(), "WIRE_DENIED", "blaster")

    def test_numpy_brings_no_threads(self):
        self.cell("try: import numpy as np; a = np.ones((300, 300)); b = a @ a\nexcept ImportError: pass")
        self.assertEqual(self.value("os.environ['OPENBLAS_NUM_THREADS']"), "'1'")
        self.twin()

    def test_busy(self):
        running = self.c.cell("time.sleep(30)")
        self.refused(self.fork(), "WIRE_DENIED", "a cell runs or waits")
        self.ok(self.c.call(OP_KERNEL_INTERRUPT, tlv(TAG_KERNEL, "k")))
        self.c.wait(running)
        self.twin()

    def test_cells_wait_for_the_fork(self):
        fork = self.c.open(OP_KERNEL_FORK, tlv(TAG_KERNEL, "k"), tlv(TAG_TARGET, "k-2"))
        cell = self.c.cell("x = 99")
        self.ok(self.c.wait(fork))
        self.ok(self.c.wait(cell))
        self.assertEqual((self.value("x"), self.value("x", "k-2")), ("99", "5"))

    def test_names(self):
        self.status(self.fork("nobody"), "WIRE_NOT_FOUND")
        self.status(self.fork(name=""), "WIRE_BAD_REQUEST")
        for name in ("k-2", "k-3"):
            self.assertEqual(self.ok(self.c.call(OP_KERNEL_FORK, tlv(TAG_KERNEL, "k"))).text("kernel"), name)
            self.assertEqual(self.value("x", name), "5")
        self.stop("k-2")
        self.stop("k-3")
        self.ok(self.c.start_kernel(TEST_KERNEL, kernel="t"))
        self.ok(self.c.run_cell("say hi", kernel="t"))
        self.refused(self.fork("t", "t-2"), "WIRE_DENIED", "no fork")
        self.refused(self.fork(name="k"), "WIRE_EXISTS", "k runs already")
        self.twin()
        self.refused(self.fork(), "WIRE_EXISTS", "k-2 runs already")
        self.stop("k-2")
        self.refused(self.fork("k-2", "k-3"), "WIRE_DENIED", "not running")
        end = self.ok(self.fork())  # the name is free again
        self.assertEqual((end.generation, end.text("kernel")), (3, "k-2"))

    def test_no_more_than_there_may_be(self):
        for i in range(15):
            self.ok(self.c.start_kernel(TEST_KERNEL, kernel=f"t{i}"))
        self.refused(self.fork(), "WIRE_LIMIT", "16 kernels")

    def test_no_process_can_be_made(self):
        """refused at each step, and it goes on as if nothing had been"""
        for flag, step in ((0x100, "fork the kernel"), (0, "fork a helper")):
            self.cell(REFUSE_CLONE.format(flag=flag))
            self.refused(self.fork(), "WIRE_DENIED", f"no process could be made: {step}: Resource temporarily")
            self.assertEqual(self.value("x"), "5")
            self.assertEqual(self.value(CHILDREN), "''")
            self.assertEqual(len(self.kernels()), 1)

    def test_a_twin_that_dies_at_its_birth(self):
        self.cell("os.register_at_fork(after_in_child=lambda: os._exit(9))")
        self.status(self.fork(), "WIRE_GONE")
        self.assertEqual(self.value("x"), "5")

    def test_a_kernel_that_dies_while_it_is_forked(self):
        self.cell("os.register_at_fork(before=lambda: os._exit(9))")
        self.status(self.fork(), "WIRE_GONE")

    def test_an_answer_that_nobody_asked_for(self):
        self.ok(self.c.start_kernel(TEST_KERNEL, kernel="t"))
        end = self.ok(self.c.run_cell("raw " + frame(FRAME_FORKED).hex(), kernel="t"))
        self.assertIn("kernel_broke_protocol", end.notes)

    def test_delivered_again_it_is_one_twin(self):
        delivery = tlv(TAG_DELIVERY, os.urandom(16))
        parts = (tlv(TAG_KERNEL, "k"), tlv(TAG_TARGET, "k-2"), delivery)
        self.c.open(OP_KERNEL_FORK, *parts)
        self.c.close()
        self.c = self.agent.client()
        self.assertTrue(until(lambda: "k-2" in self.kernels()))
        self.assertEqual(self.value("x", "k-2"), "5")
        self.assertEqual(self.ok(self.c.call(OP_KERNEL_FORK, *parts)).generation, 1)
        self.assertEqual(self.kernels()["k-2"].generation, 1)


if __name__ == "__main__":
    tap.main()
