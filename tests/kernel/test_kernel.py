"""Tests of the Python kernel, with IPython and with the packages hidden. Prints TAP."""

import base64
import importlib.util
import json
import os
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
import tap  # noqa: E402
from driver import (  # noqa: E402
    CELL, CODE, DATA, ENGINE, ERROR, EXIT, EXPECT, FIN, INTERRUPTED, LANGUAGE, OK, VERSION,
    Kernel, KernelDied, tlv,
)

TABLE = "application/vnd.scb.table+json"


def has(module):
    return importlib.util.find_spec(module) is not None


class Case(unittest.TestCase):
    plain = False

    @classmethod
    def setUpClass(cls):
        cls.kernel = Kernel(plain=cls.plain)

    @classmethod
    def tearDownClass(cls):
        cls.kernel.close()

    def ok(self, code, value=None, out=None, **options):
        result = self.kernel.run(code, **options)
        self.assertEqual((result.status, result.traceback), (OK, ""), code)
        self.assertEqual(result.exit_code, 0)
        if value is not None:
            self.assertEqual(result.value, value)
        if out is not None:
            self.assertEqual(result.out, out)
        return result

    def fails(self, code, name, **options):
        result = self.kernel.run(code, **options)
        self.assertEqual((result.status, result.name), (ERROR, name), result.traceback)
        return result


class Both:
    """What holds with and without IPython."""

    def test_ready(self):
        self.assertEqual(self.kernel.ready[LANGUAGE], "python")
        self.assertEqual(self.kernel.ready[ENGINE], "plain" if self.plain else "ipython")
        self.assertRegex(self.kernel.ready[VERSION], r"^3\.\d+")

    def test_values(self):
        self.ok("1+1", "2")
        self.ok("'é漢字🙂'", "'é漢字🙂'")
        self.ok("[1, {'a': (None, True)}]", "[1, {'a': (None, True)}]")
        self.assertIsNone(self.ok("None").value)
        self.assertIsNone(self.ok("x = 1").value)
        self.assertEqual(self.ok("").shown, [])
        self.assertEqual(self.ok("# nothing").shown, [])

    def test_numbers(self):
        for n in (0, 1, 61, 62, 63, 64, 4000):
            self.ok(f"10**{n}", "1" + "0" * n)
        for code in ("True", "-1.5", "2j"):
            self.ok(code, code)

    def test_state(self):
        self.ok("first = 20")
        self.ok("def double(n):\n    return 2 * n")
        self.ok("double(first) + 2", "42")
        self.ok("_ + 1", "43")

    def test_semicolon_silences(self):
        for code in ("6*7;", "6*7 ;  # why", "(6*7\n);", "6*7; ", "'a;b';"):
            self.assertEqual(self.ok(code).shown, [], code)
        self.ok("1; 2", "2")
        self.ok("'a;b'", "'a;b'")
        self.ok("'#;'  # ;", "'#;'")

    def test_large_values_are_bounded(self):
        for code, ending in (
            ("list(range(10**6))", "(list of length 1000000)"),
            ("'x' * 10**7", "(length 10000000)"),
            ("{i: [i] * 100 for i in range(1000)}", "(dict of length 1000)"),
        ):
            started = time.monotonic()
            value = self.ok(code).value
            self.assertLess(len(value), 31_000)
            self.assertTrue(value.endswith(ending), value[-80:])
            self.assertLess(time.monotonic() - started, 10)
        value = self.ok("class Long:\n    def __repr__(self): return 'r' * 10**6\nLong()").value
        self.assertIn("left out", value)
        self.assertLess(len(value), 31_000)
        self.assertIn("[[...]]", self.ok("a = []; a.append(a); a").value)
        deep = "d = []\nfor _ in range(100000): d = [d]\nd"
        self.assertIn("list of length 1", self.ok(deep).value)

    def test_output_order_and_streams(self):
        result = self.ok("import sys\nprint('a'); print('b', file=sys.stderr); sys.stdout.write('c')",
                         "1", "a\nc")
        self.assertEqual(result.err, "b\n")

    def test_output_of_children_and_descriptors(self):
        self.ok("import os, subprocess\nprint('one')\nsubprocess.run(['echo', 'two'])\n"
                "print('three', flush=True); os.write(1, b'four\\n');", out="one\ntwo\nthree\nfour\n")

    def test_unicode_in_one_write(self):
        result = self.ok("print('é漢字🙂' * 100000)")
        self.assertEqual(result.out, "é漢字🙂" * 100000 + "\n")
        self.ok("print('\\ud800')", out="\\ud800\n")
        self.assertEqual(self.ok("'\\ud800'").value, "'\\ud800'")

    def test_closed_stdout_is_mended(self):
        self.ok("import sys; sys.stdout.close(); sys.stderr.close()")
        self.ok("print('here')", out="here\n")

    def test_streams_that_code_broke_are_mended(self):
        broken = "class W:\n    def write(self, text): pass\n    {}\n{}"
        for code in (
            "import sys; sys.stdout.detach(); sys.stderr.detach();",
            "del sys.stdout, sys.stderr, sys.stdin",
            "sys.stdin = object(); sys.stdin",
            broken.format("", "sys.stdout = W()"),
            broken.format("def flush(self): 1/0", "sys.stderr = W()"),
            broken.format("closed = property(lambda self: 1/0)", "sys.stdout = sys.stderr = W()"),
            "sys.stdout.flush = None",
        ):
            self.ok(code)
            self.ok("1+1", "2")
            self.ok("sys.stdout = sys.stdin = None")
            self.ok("print('here')", out="here\n")
            self.ok("sys.stdin.read()", "''")
        self.ok("sys.stderr = None")

    def test_what_the_kernel_says_needs_no_stream(self):
        for code, status in (("sys.exit('why')", EXIT), ("for i in range(70): display(i)", OK)):
            result = self.kernel.run("import sys; sys.stderr.close()\n" + code)
            self.assertEqual(result.status, status, result.traceback)
            self.assertRegex(result.err, "why|6 more")
            result = self.kernel.run("sys.stderr = object()\n" + code)
            self.assertEqual(result.status, status, result.traceback)
            self.ok("sys.stderr = None")

    def test_error(self):
        result = self.fails("def f():\n    return 1 / 0\n\nf()", "ZeroDivisionError")
        self.assertEqual(result.message, "division by zero")
        self.assertEqual(result.exit_code, 1)
        self.assertRegex(result.traceback, r'File "<cell \d+>", line 4, in <module>\n    f\(\)')
        self.assertRegex(result.traceback, r'File "<cell \d+>", line 2, in f\n    return 1 / 0')
        self.assertNotIn("kernel", result.traceback)
        self.assertNotIn("scb_", result.traceback)
        self.assertNotIn("\x1b", result.traceback)

    def test_error_in_an_earlier_cell_shows_its_source(self):
        self.ok("def broken():\n    raise KeyError('spaß')")
        result = self.fails("broken()", "KeyError")
        self.assertIn("raise KeyError('spaß')", result.traceback)

    def test_chained_errors(self):
        result = self.fails("try:\n    1/0\nexcept Exception as e:\n    raise ValueError('v') from e",
                            "ValueError")
        self.assertIn("direct cause", result.traceback)
        self.assertNotIn("kernel", result.traceback)

    def test_odd_errors(self):
        self.fails("class E(Exception):\n    def __str__(self): 1/0\nraise E", "E")
        self.fails("def r(): r()\nr()", "RecursionError")
        self.fails("raise BaseException('b')", "BaseException")
        self.fails("class R:\n    def __repr__(self): raise ValueError('repr')\nR()", "ValueError")
        result = self.fails("raise ValueError('m' * 10**6)", "ValueError")
        self.assertLess(len(result.message), 10_000)
        self.assertLess(len(result.traceback), 24 * 1024)
        self.ok("1", "1")

    def test_syntax_error(self):
        result = self.fails("a = 1\nb = 2\nc = = 3\nd = 4", "SyntaxError")
        self.assertRegex(result.traceback, r'File "<cell \d+>", line 3\n +c = = 3\n +\^')
        self.assertNotIn("Traceback", result.traceback)
        self.assertNotIn("site-packages", result.traceback)
        self.assertNotIn("scb_", result.traceback)
        self.fails("print('not run')\nreturn 5", "SyntaxError")
        self.assertEqual(self.kernel.run("print('not run')\nreturn 5").out, "")
        self.assertEqual(self.kernel.run("x = 1\0").status, ERROR)

    def test_memory_error(self):
        self.fails("import resource\n"
                   "resource.setrlimit(resource.RLIMIT_AS, (700 << 20, resource.RLIM_INFINITY))\n"
                   "try:\n    a = [b'x' * 10**7 for _ in range(10**4)]\n"
                   "finally:\n    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))", "MemoryError")
        self.ok("40 + 2", "42")

    def test_exit(self):
        for code, expected in (("import sys; sys.exit(2)", 2), ("exit()", 0), ("quit(7)", 7),
                               ("raise SystemExit(-1)", 255), ("import sys; sys.exit()", 0)):
            result = self.kernel.run(code)
            self.assertEqual((result.status, result.exit_code), (EXIT, expected), code)
        result = self.kernel.run("import sys; sys.exit('why')")
        self.assertEqual((result.exit_code, result.err), (1, "why\n"))
        self.ok("1", "1")

    def test_await(self):
        self.ok("await asyncio.sleep(0); 5", "5")
        self.ok("import asyncio\nasync def later(): return 6\nawait later()", "6")
        self.ok("asyncio.run(later())", "6")
        self.ok("task = asyncio.get_event_loop().create_task(later())\nawait asyncio.sleep(0)")
        self.ok("task.result()", "6")
        result = self.fails("await asyncio.sleep(0)\n1/0", "ZeroDivisionError")
        self.assertNotIn("base_events", result.traceback)
        result = self.fails("async def bad():\n    raise OSError('x')\nawait bad()", "OSError")
        self.assertNotIn("base_events", result.traceback)
        self.assertIn("in bad", result.traceback)

        result = self.kernel.run("import sys, gc\nawait asyncio.sleep(0); sys.exit(3)")
        self.assertEqual((result.status, result.exit_code), (EXIT, 3))
        self.assertEqual(self.ok("gc.collect();").err, "")

    def test_line_ends(self):
        result = self.fails("a = 1\r\nb = 2\rc = 3\n1/0", "ZeroDivisionError")
        self.assertIn("line 4", result.traceback)
        self.ok("1\r\n2;\r\n")
        result = self.fails("a = '\x0c\u2028'\n1/0  # here", "ZeroDivisionError")
        self.assertIn("1/0  # here", result.traceback)

    def test_future_annotations(self):
        self.ok("from __future__ import annotations")
        self.ok("def g(x: not_there): pass\ng.__annotations__", "{'x': 'not_there'}")

    def test_interrupt_keeps_state(self):
        self.ok("kept = 41")
        self.kernel.interrupt_after(0.3)
        started = time.monotonic()
        result = self.kernel.run("while True: pass")
        self.assertEqual((result.status, result.name), (INTERRUPTED, "KeyboardInterrupt"))
        self.assertIsNone(result.exit_code)
        self.assertRegex(result.traceback, r'File "<cell \d+>", line 1')
        self.assertLess(time.monotonic() - started, 5)
        self.ok("kept + 1", "42")

    def test_interrupt_of_sleep_child_await_and_input(self):
        for code in ("import time; time.sleep(30)", "import subprocess; subprocess.run(['sleep', '30'])",
                     "await asyncio.sleep(30)", "import threading; threading.Event().wait()"):
            self.kernel.interrupt_after(0.3)
            started = time.monotonic()
            self.assertEqual(self.kernel.run(code).status, INTERRUPTED, code)
            self.assertLess(time.monotonic() - started, 5, code)
        self.kernel.start("input()", stdin_open=True)
        self.kernel.interrupt_after(0.3)
        self.assertEqual(self.kernel.finish().status, INTERRUPTED)
        self.ok("1", "1")

    def test_interrupt_between_cells_is_swallowed(self):
        self.ok("import threading, time\nt = threading.Thread(target=time.sleep, args=(1,)); t.start()")
        for _ in range(20):
            self.kernel.interrupt()
            time.sleep(0.005)
        self.ok("import time; time.sleep(0.1); 'not interrupted'", "'not interrupted'")

    def test_what_is_expected_leaves_nothing(self):
        """EXPECT is not answered, and the next cell finds everything as the last one left it."""
        self.ok("names = None")
        self.ok("names = sorted(globals())")
        self.ok("40 + 2", "42")
        for _ in range(3):
            self.kernel.send(EXPECT, b"")
        self.assertEqual(len(self.ok("_", "42").shown), 1)
        self.kernel.send(EXPECT, b"")
        self.ok("names == sorted(globals().keys() - {'_'} | set(names) & {'_'})", "True")
        self.kernel.send(EXPECT, b"")
        self.assertIn('File "<cell ', self.fails("1 / 0", "ZeroDivisionError").traceback)

    def test_expecting_runs_no_code_of_the_session(self):
        """Not even what was put in the place of what Python has, nor hooks of a cell."""
        self.ok("ran = []\nmine = lambda *a, **k: ran.append(a)\ncompile = eval = repr = len = show = mine")
        self.kernel.send(EXPECT, b"")
        self.ok("ran", "[]")
        self.ok("del compile, eval, repr, len, show")

    def test_interrupts_while_it_is_expected(self):
        """One that comes then may be meant for the cell that follows, as between two cells."""
        for i in range(200):
            self.kernel.send(EXPECT, b"")
            if i % 2:
                time.sleep(0.0001 * (i % 7))
            self.kernel.interrupt()
            self.ok("1", "1")

    def test_interrupts_never_tear_a_frame(self):
        code = "for i in range(10**6): display('x' * 40000)"
        for delay in (0.01, 0.02, 0.05, 0.1):
            self.kernel.interrupt_after(delay)
            self.assertEqual(self.kernel.run(code).status, INTERRUPTED)
            self.ok("1", "1")

    def test_own_signal_handler_is_that_cells_alone(self):
        self.ok("import signal\n_ = signal.signal(signal.SIGINT, signal.SIG_IGN)")
        self.kernel.interrupt_after(0.3)
        self.assertEqual(self.kernel.run("while True: pass").status, INTERRUPTED)

    def test_getpass(self):
        r = self.fails("import getpass; getpass.getpass()", "StdinNotAvailable")
        self.assertIn("getpass() has nothing to read", r.message)
        self.assertEqual("Password: ", r.err)
        self.ok("getpass.getpass('PIN? ')", "'12'", stdin=b"12\n")

    def test_input_without_stdin(self):
        result = self.fails("input('name? ')", "StdinNotAvailable")
        self.assertIn("stdin", result.message)
        self.assertEqual(result.out, "name? ")
        self.assertNotIn("scb_", result.traceback)
        self.ok("import sys; sys.stdin.read()", "''")
        self.ok("try:\n    input()\nexcept EOFError:\n    print('caught')", out="caught\n")

    def test_stdin(self):
        self.ok("a = input('? '); b = input(); (a, b)", "('eins', 'zwei é')", stdin="eins\nzwei é\n".encode())
        self.fails("input()\ninput()", "EOFError", stdin=b"one line\n")
        self.ok("1", "1", stdin=b"not read\n")
        self.fails("input()", "StdinNotAvailable")

    def test_stdin_in_pieces(self):
        self.kernel.start("import sys\nlines = list(sys.stdin)\nlen(lines), len(lines[0])", stdin_open=True)
        for _ in range(40):
            self.kernel.send(DATA, b"y" * 200_000)
        self.kernel.send(DATA, b"\nlast", FIN)
        self.assertEqual(self.kernel.finish().value, "(2, 8000001)")

    def test_stdin_of_a_thread_that_outlives_its_cell(self):
        self.kernel.start("import sys, threading, time\n"
                          "t = threading.Thread(target=sys.stdin.read, daemon=True); t.start()\n"
                          "time.sleep(0.2)", stdin_open=True)
        self.assertEqual(self.kernel.finish().status, OK)
        self.ok("t.join(5); t.is_alive()", "False")

    def test_long_code(self):
        self.ok("s = '" + "z" * 250_000 + "'\nlen(s)", "250000")

    def test_death(self):
        kernel = Kernel(plain=self.plain)
        try:
            with self.assertRaises(KernelDied) as died:
                kernel.run("import os; os._exit(3)")
            self.assertEqual(died.exception.args[0], 3)
        finally:
            kernel.close()

    def test_ends_with_its_agent(self):
        kernel = Kernel(plain=self.plain)
        kernel.run("import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()")
        kernel.sock.close()
        self.assertEqual(kernel.process.wait(5), 0)
        kernel.close()

    def test_descriptors_of_children(self):
        result = self.ok("import subprocess, os\n"
                         "print(subprocess.run(['ls', '/proc/self/fd'], capture_output=True, text=True, "
                         "close_fds=False).stdout)\nprint('SCB_KERNEL_FD' in os.environ)")
        self.assertEqual(result.out.split(), ["0", "1", "2", "3", "False"])

    def test_fork(self):
        self.ok("import os\npid = os.fork()\nif pid == 0:\n    display('from the child')\n    1/0\n"
                "os.waitpid(pid, 0)[1] >> 8", "1")
        self.ok("pid = os.fork()\nos.waitpid(pid, 0)[1] if pid else None", "0")
        self.ok("print('once', end='')\npid = os.fork()\nif pid: os.waitpid(pid, 0);", out="once")

    def test_multiprocessing(self):
        self.ok("import multiprocessing\ndef square(n): return n * n\n"
                "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
                "    print(pool.map(square, range(5)))", out="[0, 1, 4, 9, 16]\n")
        self.ok("import pickle; pickle.loads(pickle.dumps(square))(5)", "25")
        self.ok("__name__", "'__main__'")

    def test_display(self):
        result = self.ok("print('a'); display(1, 'two'); print('b'); 3", out="a\nb\n")
        self.assertEqual([(r, m["text/plain"]) for r, m, _ in result.shown],
                         [(False, b"1"), (False, b"'two'"), (True, b"3")])

    def test_display_of_a_thread_that_outlives_its_cell(self):
        self.ok("import threading\ndone = False\n"
                "def work():\n    while not done: display(1)\n"
                "t = threading.Thread(target=work); t.start()")
        for _ in range(50):
            self.ok("1")
        self.ok("done = True; t.join()")
        self.ok("2", "2")

    def test_display_has_a_bound(self):
        result = self.ok("for i in range(1000): display(i)")
        self.assertEqual(len(result.shown), 64)
        self.assertIn("936 more", result.err)

    def test_representations(self):
        result = self.ok(
            "class Rich:\n"
            "    def __repr__(self): return 'rich'\n"
            "    def _repr_html_(self): return '<b>é</b>'\n"
            "    def _repr_svg_(self): return '<svg/>'\n"
            "    def _repr_png_(self): return b'\\x89PNG' + bytes(range(256))\n"
            "    def _repr_latex_(self): raise ValueError\n"
            "    def _repr_json_(self): return {'a': [1, None]}\n"
            "Rich()")
        mimes = result.shown[0][1]
        self.assertEqual(list(mimes), ["text/plain", "text/html", "image/svg+xml", "image/png", "application/json"])
        self.assertEqual(mimes["text/plain"], b"rich")
        self.assertEqual(mimes["text/html"], "<b>é</b>".encode())
        self.assertEqual(mimes["image/png"], b"\x89PNG" + bytes(range(256)))
        self.assertEqual(json.loads(mimes["application/json"]), {"a": [1, None]})
        result = self.ok(
            "class Bundle:\n"
            "    def _repr_mimebundle_(self, include=None, exclude=None):\n"
            "        return {'image/png': 'AAEC', 'text/plain': 'p', 'application/json': [1]}, {}\n"
            "Bundle()")
        self.assertEqual(result.shown[0][1], {"text/plain": b"p", "image/png": b"\0\1\2", "application/json": b"[1]"})
        self.ok("Rich", "<class '__main__.Rich'>")
        self.assertEqual(len(self.ok("from unittest import mock; mock.Mock()").shown[0][1]), 1)

    def test_too_large_is_named(self):
        result = self.ok("class Big:\n    def __repr__(self): return 'big'\n"
                         "    def _repr_png_(self): return bytes(500000)\n"
                         "    def _repr_html_(self): return 'small'\nBig()")
        _, mimes, skipped = result.shown[0]
        self.assertEqual(list(mimes), ["text/plain", "text/html"])
        self.assertEqual(skipped, ["image/png 500000"])

    def test_shadowing_files(self):
        kernel = Kernel(plain=self.plain)
        try:
            for name in ("random", "json", "asyncio", "traceback", "tokenize", "subprocess", "typing",
                         "show", "wire", "loop", "kernel"):
                with open(os.path.join(kernel.cwd, name + ".py"), "w") as f:
                    f.write("mine = 'mine'\n")
            self.assertEqual(kernel.run("import random, show, loop; random.mine + show.mine").value,
                             "'minemine'")
            self.assertEqual(kernel.run("async def f(): return 1\nawait f()").value, "1")
            self.assertEqual(kernel.run("1/0").name, "ZeroDivisionError")
            self.assertEqual(kernel.run("import kernel; kernel.mine").value, "'mine'")
            if not self.plain:
                self.assertEqual(kernel.run("!echo here").out, "here\n")
        finally:
            kernel.close()

    def test_namespace_is_clean(self):
        kernel = Kernel(plain=self.plain)
        try:
            self.assertEqual(kernel.run("sorted(n for n in dir() if not n.startswith('__'))").value, "[]")
            self.assertEqual(kernel.run("import sys; sys.argv, sys.path[0]").value, "([''], '')")
            self.assertEqual(kernel.run("'pandas' in sys.modules or 'IPy' + 'thon' in sys.modules").value, "False")
        finally:
            kernel.close()

    def test_broken_messages_end_it(self):
        kernel = Kernel(plain=self.plain)
        try:
            kernel.send(CELL, tlv(CODE, b"1")[:-1])
            with self.assertRaises(KernelDied):
                kernel.finish()
        finally:
            kernel.close()


class Plain(Both, Case):
    plain = True

    def test_ipython_syntax_is_explained(self):
        for code in ("!ls", "x = 1\n%timeit x", "len?", "files = !ls", "import os\n%%bash\nls"):
            result = self.fails(code, "IPythonNotAvailable")
            self.assertIn("run_command", result.message)
            self.assertNotIn("During handling", result.traceback)
        self.fails("ls", "NameError")


@unittest.skipUnless(has("IPython"), "IPython is not installed")
class WithIPython(Both, Case):
    def test_shell_commands(self):
        self.ok("!echo one; echo two >&2", out="one\n")
        self.ok("print('a')\n!echo b\nprint('c')", out="a\nb\nc\n")
        self.ok("files = !echo x; echo y\nlist(files)", "['x', 'y']")
        self.ok("name = 'é $'\n!echo {name!r}", out="é $\n")
        self.ok("!exit 3\n_exit_code", "3")
        self.assertLess(min(self._time("!true") for _ in range(5)), 0.1)

    def _time(self, code):
        started = time.monotonic()
        self.ok(code)
        return time.monotonic() - started

    def test_magics(self):
        self.assertIn("per loop", self.ok("%timeit -n1 -r1 1").out)
        self.ok("%pwd", repr(self.kernel.cwd))
        self.ok("pwd", repr(self.kernel.cwd))
        self.ok("open('seen.txt', 'w').close();")
        self.assertIn("seen.txt", self.ok("ls").out)
        self.assertIn("seen.txt", self.ok("ls -l").out)
        self.ok("pwd = 5\npwd", "5")
        self.ok("del pwd")
        self.ok("%%bash\necho from bash", out="from bash\n")
        self.ok("%matplotlib inline\n1 + 1", "2")
        self.ok("x = 3\n%time y = x + 1\ny", "4")
        self.fails("%no_such_magic", "UsageError")
        self.fails("no_such_name", "NameError")

    def test_help(self):
        self.assertIn("Return the number of items", self.ok("len?").out)

    def test_engine_results(self):
        self.ok("!true\n6 * 7", "42")
        self.assertEqual(self.ok("!true\n6 * 7;").shown, [])
        self.ok("!true\nawait asyncio.sleep(0)\n8", "8")
        result = self.fails("!true\ndef f():\n    1/0\nf()", "ZeroDivisionError")
        self.assertRegex(result.traceback, r'File "<cell \d+>", line 4')
        self.assertIn("    1/0", result.traceback)
        self.assertNotIn("interactiveshell", result.traceback)
        result = self.kernel.run("!true\nimport sys; sys.exit(4)")
        self.assertEqual((result.status, result.exit_code, result.err), (EXIT, 4, ""))
        result = self.kernel.run("!true\nexit()")
        self.assertEqual((result.status, result.exit_code), (EXIT, 0))
        self.kernel.interrupt_after(0.3)
        self.assertEqual(self.kernel.run("!sleep 30").status, INTERRUPTED)
        self.kernel.interrupt_after(0.3)
        self.assertEqual(self.kernel.run("!true\nwhile True: pass").status, INTERRUPTED)

    def test_display_of_ipython(self):
        result = self.ok("from IPython.display import display, HTML, Image, clear_output\n"
                         "clear_output()\ndisplay(HTML('<i>h</i>'))\nHTML('<b>x</b>')", out="")
        self.assertEqual(result.shown[0][1]["text/html"], b"<i>h</i>")
        self.assertEqual(result.shown[1][1]["text/html"], b"<b>x</b>")
        png = b"\x89PNG\r\n\x1a\n" + b"\0" * 30
        encoded = base64.b64encode(png).decode()
        result = self.ok(f"import base64\nImage(data=base64.b64decode('{encoded}'))")
        self.assertEqual(result.shown[0][1]["image/png"], png)
        self.ok("get_ipython().user_ns is globals()", "True")

    def test_leading_blanks_and_prompts(self):
        self.ok("   6 * 7", "42")
        self.ok(">>> 6 * 7", "42")


@unittest.skipUnless(has("pandas"), "pandas is not installed")
class Pandas(Case):
    def table(self, code):
        result = self.ok(code)
        self.assertEqual(list(result.shown[-1][1]), ["text/plain", TABLE])
        return json.loads(result.shown[-1][1][TABLE]), result.value

    def test_values_of_all_kinds(self):
        """whatever stands in a column, the frame is shown"""
        table, _ = self.table(
            "import numpy as np, pandas as pd\n"
            "class Bad:\n    def __str__(self): raise ValueError\n    __repr__ = __str__\n"
            "pd.DataFrame({'c': [1+2j, 0], 'd': [np.dtype('i1'), np.dtype('O')], 'u': np.array([2**64-1, 1], 'u8'),\n"
            "  'p': pd.period_range('2020', periods=2), 'i': pd.interval_range(0, 2), 's': pd.arrays.SparseArray([1, 0])})")
        types = [(c["name"], c["type"]) for c in table["schema"]]
        self.assertEqual([("c", "string"), ("d", "string"), ("u", "number"), ("p", "string"), ("i", "string"),
                          ("s", "number")], types)
        self.assertEqual(["18446744073709551615", 1], table["data"][2])

    def test_rows_in_the_middle(self):
        """the text says how to see other rows, and their numbers are kept"""
        self.kernel.run("import pandas as pd; frame = pd.DataFrame({'n': range(5000)})")
        table, text = self.table("frame")
        self.assertIn(".iloc[FROM:TO]", text)
        self.assertEqual((200, 5000), (table["rows"], table["totalRows"]))
        table, text = self.table("frame.iloc[1000:1020]")
        self.assertNotIn(".iloc", text)
        self.assertEqual([list(range(1000, 1020))] * 2, table["data"])
        self.assertTrue(table["schema"][0]["index"])

    def test_frame(self):
        table, text = self.table('import pandas as pd; pd.DataFrame({"a":[1,None],"b":["x","y"]})')
        self.assertEqual(table["schema"], [{"name": "a", "type": "number", "dtype": "float64"},
                                           {"name": "b", "type": "string", "dtype": "object"}])
        self.assertEqual(table["data"], [[1.0, None], ["x", "y"]])
        self.assertEqual((table["rows"], table["totalRows"], table["totalColumns"]), (2, 2, 2))
        self.assertIn("NaN", text)

    def test_types(self):
        table, _ = self.table(
            "import pandas as pd, numpy as np, datetime, decimal\n"
            "pd.DataFrame({'i': [1, 2], 'f': [0.5, np.inf], 'b': [True, False], 's': ['é', None],\n"
            " 'd': pd.to_datetime(['2020-01-02', None]), 'z': pd.to_datetime(['2020-01-02', None]).tz_localize('UTC'),\n"
            " 'td': pd.to_timedelta(['90s', None]), 'c': pd.Categorical(['u', 'v']), 'I': pd.array([1, None], dtype='Int64'),\n"
            " 'B': pd.array([True, None], dtype='boolean'), 'date': [datetime.date(2020, 1, 2), None],\n"
            " 'dec': [decimal.Decimal('1.5'), None], 'mixed': [1, 'x'], 'mb': [True, 2], 'bytes': [b'ab', None],\n"
            " 'list': [[1], None], 'none': [None, None]})")
        kinds = {f["name"]: f["type"] for f in table["schema"]}
        self.assertEqual(kinds, {
            "i": "number", "f": "number", "b": "boolean", "s": "string", "d": "datetime", "z": "datetime",
            "td": "duration", "c": "string", "I": "number", "B": "boolean", "date": "date", "dec": "number",
            "mixed": "string", "mb": "string", "bytes": "bytes", "list": "string", "none": "string"})
        values = dict(zip(kinds, table["data"]))
        self.assertEqual(values["f"], [0.5, "inf"])
        self.assertEqual(values["b"], [True, False])
        self.assertEqual(values["d"], ["2020-01-02T00:00:00", None])
        self.assertEqual(values["z"], ["2020-01-02T00:00:00+00:00", None])
        self.assertEqual(values["td"], [90.0, None])
        self.assertEqual(values["I"], [1, None])
        self.assertEqual(values["B"], [True, None])
        self.assertEqual(values["date"], ["2020-01-02", None])
        self.assertEqual(values["list"], ["[1]", None])

    def test_series_and_index(self):
        table, _ = self.table("import pandas as pd; pd.Series([1, 2], index=['a', 'b'], name='n')")
        self.assertEqual(table["schema"], [
            {"name": "", "type": "string", "dtype": "object", "index": True},
            {"name": "n", "type": "number", "dtype": "int64"}])
        table, _ = self.table("pd.DataFrame({'k': ['x', 'x', 'y'], 'j': [1, 2, 1], 'v': [1., 2., 3.]})"
                              ".groupby(['k', 'j']).agg(['min', 'max'])")
        self.assertEqual([f["name"] for f in table["schema"]], ["k", "j", "v · min", "v · max"])
        self.assertEqual(table["data"][0], ["x", "x", "y"])
        table, _ = self.table("pd.DataFrame([[1, 2]], columns=['same', 'same'])")
        self.assertEqual(table["data"], [[1], [2]])

    def test_bounds(self):
        started = time.monotonic()
        table, text = self.table("import pandas as pd, numpy as np\npd.options.display.max_rows = None\n"
                                 "pd.DataFrame(np.zeros((100_000, 80)))")
        self.assertEqual((table["rows"] > 100, len(table["data"])), (True, 50))
        self.assertEqual((table["totalRows"], table["totalColumns"]), (100_000, 80))
        self.assertLess(len(text), 31_000)
        self.assertLess(time.monotonic() - started, 20)
        table, _ = self.table("pd.DataFrame({f'c{i}': ['é' * 400] * 200 for i in range(10)})")
        self.assertEqual((table["rows"], table["totalRows"]), (3, 200))
        table, _ = self.table("pd.DataFrame({'s': ['x' * 10000]})")
        self.assertTrue(table["data"][0][0].endswith("… (10000 characters)"))
        table, _ = self.table("pd.DataFrame()")
        self.assertEqual((table["rows"], table["totalRows"], table["totalColumns"]), (0, 0, 0))

    def test_display(self):
        result = self.ok("from IPython.display import display\nimport pandas as pd\n"
                         "display(pd.DataFrame({'a': [1]}))")
        self.assertEqual(list(result.shown[0][1]), ["text/plain", TABLE])


def png_size(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:8]
    return struct.unpack(">II", data[16:24])


@unittest.skipUnless(has("matplotlib"), "matplotlib is not installed")
class Figures(Case):
    def pngs(self, code, status=OK):
        result = self.kernel.run(code)
        self.assertEqual(result.status, status, result.traceback)
        self.assertEqual(result.err, "")
        return [m["image/png"] for _, m, _ in result.shown if "image/png" in m]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kernel.run("import matplotlib.pyplot as plt")

    def test_without_show_once(self):
        pngs = self.pngs("plt.plot([1, 2])")
        self.assertEqual(len(pngs), 1)
        self.assertGreater(png_size(pngs[0])[0], 300)
        self.assertEqual(self.pngs("1"), [])

    def test_show(self):
        self.assertEqual(len(self.pngs("plt.plot([1]); plt.show()\nplt.plot([2]); plt.show()")), 2)
        self.assertEqual(len(self.pngs("f, a = plt.subplots(); a.plot([1]); f.show()")), 1)
        self.assertEqual(self.pngs("plt.get_fignums()"), [])

    def test_figure_as_result(self):
        self.assertEqual(len(self.pngs("fig, ax = plt.subplots(); ax.plot([1, 2])\nfig")), 1)
        self.assertEqual(len(self.pngs("ax.set_title('later')\nfig")), 1)
        self.assertEqual(len(self.pngs("fig")), 1)
        self.assertEqual(len(self.pngs("plt.plot([1]); plt.figure(); plt.plot([2]);")), 2)
        self.assertEqual(self.pngs("plt.figure();"), [])

    def test_after_an_error(self):
        self.assertEqual(len(self.pngs("plt.plot([1]); 1/0", ERROR)), 1)
        self.assertEqual(self.pngs("1"), [])

    def test_large_is_drawn_coarser(self):
        pngs = self.pngs("import numpy as np\nplt.figure(figsize=(8, 8)); plt.imshow(np.random.rand(800, 800, 3));")
        self.assertEqual(len(pngs), 1)
        self.assertLess(len(pngs[0]), 240 * 1024)

    def test_drawing_that_fails(self):
        result = self.kernel.run("plt.title('$\\\\frac{$');")
        self.assertEqual(result.status, ERROR)
        self.assertEqual(self.pngs("1"), [])

    def test_backend(self):
        self.assertEqual(self.kernel.run("import matplotlib; matplotlib.get_backend().lower()").value, "'agg'")
        self.assertEqual(os.listdir(self.kernel.cwd), [])


if __name__ == "__main__":
    tap.main()
