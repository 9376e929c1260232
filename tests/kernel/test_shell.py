"""Tests of the shell kernel, with bash and with a plain shell. Prints TAP."""

import os
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
import tap  # noqa: E402
from driver import (  # noqa: E402
    CELL, CODE, DATA, ENGINE, ERROR, EXIT, FIN, INTERRUPTED, LANGUAGE, OK, STDIN_MODE, VERSION,
    Kernel, KernelDied, tlv,
)

PROGRAM = os.path.abspath(os.environ["SCB_SHELL_KERNEL"])
INTERRUPT = 18


class Case(unittest.TestCase):
    shell = "/bin/bash"

    def setUp(self):
        self.kernel = Kernel(argv=[PROGRAM, self.shell])
        self.addCleanup(self.kernel.close)

    def run_cell(self, code, out=None, err="", status=OK, exit_code=0, **options):
        """Runs a cell and checks how it ended; err None: whatever it says there."""
        r = self.kernel.run(code, **options)
        self.assertEqual((status, exit_code), (r.status, r.exit_code), f"{code}: {r.out}{r.err}")
        if out is not None:
            self.assertEqual(out, r.out, code)
        if err is not None:
            self.assertEqual(err, r.err, code)
        return r

    def after(self, seconds, act):
        timer = threading.Timer(seconds, act)
        timer.start()
        self.addCleanup(timer.cancel)

    def interrupt(self):
        """As the agent does: the kernel and what it started."""
        os.killpg(self.kernel.process.pid, signal.SIGINT)


class Both:
    """What holds in bash and in a plain shell."""

    def test_ready(self):
        self.assertEqual("shell", self.kernel.ready[LANGUAGE])
        self.assertEqual(os.path.basename(self.shell), self.kernel.ready[ENGINE])

    def test_state_stays(self):
        self.run_cell("cd /usr; x='a  b'; export E=env; umask 027; f() { echo \"f: $x $1\"; }")
        self.run_cell("pwd; f 1; sh -c 'echo $E'; umask", "/usr\nf: a  b 1\nenv\n0027\n")
        self.run_cell("alias ll='echo aliased'")
        self.run_cell("ll", "aliased\n")

    def test_status(self):
        """the status of the last command is the cell's, and the next one's $?"""
        self.run_cell("(exit 3)", exit_code=3)
        self.run_cell("echo $?", "3\n")
        self.run_cell("echo $?", "0\n")
        self.run_cell("return 5; echo no", "", exit_code=5)
        self.run_cell("")
        self.run_cell("# nothing")

    def test_exit(self):
        """exit ends the cell and keeps the state"""
        self.run_cell("cd /usr; x='a  b'; export E=env; umask 027; alias ll='echo aliased'; set -u")
        self.run_cell("echo before; exit 7; echo no", "before\n", err=None, status=EXIT, exit_code=7)
        self.run_cell("echo $? \"$x\"; pwd; sh -c 'echo $E'; umask; ll; echo $-",
                      err=None).out.startswith("7 a  b\n/usr\nenv\n0027\naliased\n")
        self.run_cell("exit", err=None, status=EXIT)
        self.run_cell("set -e; false; echo no", "", err=None, status=EXIT, exit_code=1)
        self.run_cell("echo $? $x", "1 a b\n")

    def test_exec(self):
        """a program in the shell's place: said, and the state is that from before the cell"""
        self.run_cell("x=1; alias ll='echo aliased'; cd /usr")
        r = self.run_cell("x=2; exec sh -c 'echo other; exit 4'", "other\n", err=None, status=EXIT, exit_code=4)
        self.assertIn("before this cell", r.err)
        self.run_cell("echo $? $x; pwd; ll", "4 1\n/usr\naliased\n")
        self.run_cell("exec 7</dev/null; read y <&7 || echo empty", "empty\n")
        r = self.run_cell("exec no-such-program", err=None, status=EXIT, exit_code=127)
        self.run_cell("echo $x", "1\n")

    def test_what_is_left_open_ends_with_its_cell(self):
        self.run_cell("x=1")
        for code in ('echo "unbalanced', "echo 'unbalanced", "if true; then", "f() {", "cat <<E\nhere", "echo $(",
                     "case x in", "echo )", "}", "fi"):
            with self.subTest(code=code):
                r = self.kernel.run(code)
                self.assertEqual("", r.out.replace("here", "").strip(), code)
                if code.startswith("cat"):
                    self.assertEqual(OK, r.status)  # a document ends with its file
                else:
                    self.assertNotEqual(0, r.exit_code, code)
                    self.assertRegex(r.err, r"line [12]: " if self.shell == "/bin/bash" else "yntax error")
                self.run_cell("echo next $x", "next 1\n")

    def test_stdin(self):
        self.run_cell("cat", "")
        self.run_cell("read a && echo got || echo none", "none\n")
        self.run_cell("cat", "given\nlines", stdin=b"given\nlines")
        self.run_cell("cat", "", stdin=b"")
        self.run_cell("read a; echo $a; sh -c 'read b; echo $b'", "one\ntwo\n", stdin=b"one\ntwo\nthree\n")
        self.run_cell("cat", "")  # nothing of it is left

    def test_stdin_in_pieces(self):
        """a cell that reads late gets all of it; one that does not read holds nobody up"""
        k = self.kernel
        k.start("sleep 0.3; wc -c", stdin_open=True)
        for _ in range(6):
            k.send(DATA, b"x" * 200_000)
        k.send(DATA, b"end", FIN)
        r = k.finish()
        self.assertEqual("1200003", r.out.strip())
        k.start("echo ignores it", stdin_open=True)
        for _ in range(3):
            k.send(DATA, b"x" * 200_000)
        self.assertEqual("ignores it\n", k.finish().out)
        self.run_cell("cat", "")

    def test_bytes(self):
        """what a cell holds and prints stays as it is"""
        code = "printf '%s' '\u00e9\u6f22\U0001f642\tx' | od -An -tx1 | tr -d ' \\n'"
        self.run_cell(code, "c3a9e6bca2f09f998209" + "78")
        self.kernel.start("\0")
        r = self.kernel.finish()
        self.assertEqual((ERROR, 1), (r.status, r.exit_code))
        self.run_cell("printf 'a\\000b' | od -An -tx1 | tr -d ' \\n'", "610062")

    def test_long_cell(self):
        self.run_cell("x='" + "y" * 230_000 + "'\necho ${#x}", "230000\n")
        self.run_cell("\n".join(f"v{i}={i}" for i in range(20_000)) + "\necho $v19999", "19999\n")
        self.run_cell("exit 1", err=None, status=EXIT, exit_code=1)
        self.run_cell("echo ${#x} $v10000", "230000 10000\n")

    def test_output_is_before_the_end(self):
        for i in range(20):
            self.run_cell(f"seq 1 500; echo {i} >&2; (seq 500 600)",
                          "".join(f"{n}\n" for n in [*range(1, 501), *range(500, 601)]), err=f"{i}\n")

    def test_interrupt(self):
        self.run_cell("x=41")
        for code in ("sleep 60", "sleep 60 | cat; echo no", "while :; do :; done", "while :; do sleep 0.05; done",
                     "(sleep 60); echo no", "y=$(sleep 60); echo no", "wait; sleep 60", "f() { sleep 60; }; f; echo no",
                     "while /bin/true; do :; done", "exec sleep 60"):
            with self.subTest(code=code):
                self.after(0.3, self.interrupt)
                began = time.monotonic()
                self.run_cell(code, "", err=None, status=INTERRUPTED, exit_code=130)
                self.assertLess(time.monotonic() - began, 10)
                self.run_cell("echo $? $((x + 1))", "130 42\n")

    def test_interrupt_by_frame(self):
        self.run_cell("x=41")
        self.kernel.start("sleep 60; echo no")
        self.kernel.send(INTERRUPT, b"")
        self.assertEqual(INTERRUPTED, self.kernel.finish().status)
        self.kernel.send(INTERRUPT, b"")  # nothing runs
        self.run_cell("echo $x", "41\n")

    def test_interrupt_between_cells(self):
        self.run_cell("x=41")
        for _ in range(3):
            self.interrupt()
            time.sleep(0.05)
        self.run_cell("echo $x", "41\n")

    def test_background(self):
        """what a cell starts lives on, through an interrupt, and ends with the kernel"""
        self.run_cell("sleep 300.77 & echo $!", err=None)
        self.after(0.3, self.interrupt)
        self.run_cell("sleep 60", err=None, status=INTERRUPTED, exit_code=130)
        self.run_cell("pgrep -fx 'sleep 300.77' >/dev/null && echo lives", "lives\n")
        self.run_cell("(sleep 0.3; echo late) & echo first", "first\n")
        self.run_cell("sleep 0.6", "late\n")

    def test_death(self):
        """a shell that is killed takes the kernel with it, in the same way"""
        for sig in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
            kernel = Kernel(argv=[PROGRAM, self.shell])
            try:
                with self.assertRaises(KernelDied) as died:
                    kernel.run(f"kill -{int(sig)} $$; sleep 5")
                self.assertEqual(-sig, died.exception.args[0])
            finally:
                kernel.close()

    def test_descriptors(self):
        """programs of a cell have the three, and nothing of the kernel"""
        r = self.run_cell("ls -l /proc/self/fd | sed 1d | sed 's/.* \\([0-9]* -> .*\\)/\\1/'")
        lines = r.out.split("\n")[:-1]
        self.assertEqual(["0", "1", "2", "3"], [line.split()[0] for line in lines], r.out)
        self.assertEqual("0 -> /dev/null", lines[0])
        self.run_cell("env | grep -c SCB_ ", "0\n", exit_code=1)

    def test_agent_that_goes_away(self):
        self.run_cell("sleep 300.78 &", err=None)
        self.kernel.sock.close()
        self.assertEqual(0, self.kernel.process.wait(5))

    def test_broken_protocol(self):
        self.kernel.sock.sendall(b"x" * 100)
        self.assertEqual(1, self.kernel.process.wait(5))

    def test_two_cells_at_once(self):
        self.kernel.start("sleep 0.2")
        self.kernel.send(CELL, tlv(CODE, b"echo") + tlv(STDIN_MODE, b"\0"))
        with self.assertRaises(KernelDied):
            self.kernel.finish()


class Bash(Case, Both):
    def test_version(self):
        self.assertRegex(self.kernel.ready[VERSION], r"^[45]\.")

    def test_all_kinds_of_state_outlive_an_exit(self):
        self.run_cell("""
            a=(1 'two  words' $'new\\nline' ''); declare -A m=([k]=v [q]="it's \\"quoted\\""); declare -i n=7
            readonly RO=fixed; declare -n ref=n; export -a exported=(x)
            set -- p 'q r'; set -o pipefail; shopt -s extglob nullglob; export -f f 2>/dev/null
            trap 'echo usr1' USR1; cd /usr; cd /tmp; u=
        """)
        self.run_cell("g() { case $1 in @(x|y)) echo yes;; *) echo no;; esac; }; h() { echo h; }; export -f h")
        self.run_cell("exit 9", status=EXIT, exit_code=9)
        self.run_cell('echo "$? ${#a[@]}|${a[1]}|${a[2]}|${m[k]}|${m[q]}|$n|$ref|$RO|$#|$2|$OLDPWD|${u-unset}"',
                      "9 4|two  words|new\nline|v|it's \"quoted\"|7|7|fixed|2|q r|/usr|\n")
        self.run_cell("shopt -qo pipefail && shopt -q extglob nullglob && echo set; g x; bash -c h", "set\nyes\nh\n")
        self.run_cell("kill -USR1 $$", "usr1\n")
        self.run_cell("n=n+1; echo $n; RO=2; echo no", "8\n", err=None, exit_code=1)

    def test_lines_of_errors(self):
        """errors name the cell's own line"""
        for _ in range(2):
            r = self.run_cell("true\n\nno-such-command", err=None, exit_code=127)
            self.assertRegex(r.err, r"^\S*\.cell-\d+: line 3: no-such-command: command not found\n$")
        self.run_cell("true\necho $LINENO", "2\n")

    def test_substitutions_that_are_not_closed(self):
        """bash 5.2 spoils its memory with these when it meets them itself"""
        self.run_cell("x=1")
        for code in ("echo $(", "cat <(", 'echo "$(', "x=$(cat <<E\nfoo\n", "echo $(case x in", "{ echo $( # )", "a=($("):
            self.run_cell(code, "", err=None, exit_code=2)
            for then in ("case x in", "y=$(echo a; echo $(echo b))", "f() { echo f; }; f", "echo )"):
                self.kernel.run(then)
        self.run_cell("echo $x $?", "1 2\n")

    def test_options_that_end_a_cell(self):
        self.run_cell("set -eu; x=1")
        r = self.run_cell("echo $nope; echo no", "", err=None, status=EXIT, exit_code=1)
        self.assertIn("nope: unbound variable", r.err)
        self.run_cell("f() { false; echo no; }\nf", "", status=EXIT, exit_code=1)
        self.run_cell("false || true; if false; then :; fi; echo goes on", "goes on\n")
        self.run_cell("set +eu; echo $x", "1\n")
        self.run_cell("echo ${nope:?a message}; echo no", "", err=None, status=EXIT, exit_code=1)

    def test_traces(self):
        """set -x and set -v show the cells, not the kernel"""
        self.run_cell("set -x; true", err="++ true\n")
        r = self.run_cell("echo x; set +x", "x\n", err=None)
        self.assertNotIn("__scb", r.err)
        self.run_cell("set -v")
        self.run_cell("echo v; set +v", "v\n", err="echo v; set +v\n")
        self.run_cell("trap 'echo dbg' DEBUG; x=1")
        r = self.run_cell("trap - DEBUG; echo end", err=None)
        self.assertNotIn("__scb", r.out)

    def test_exit_trap(self):
        """a trap of the cells runs when the shell ends, once, and is listed"""
        self.run_cell("trap 'echo bye $?' EXIT; trap 'echo never' 0; trap - EXIT; trap -- 'echo bye $? $x' EXIT; x=3")
        self.run_cell("trap; trap -p EXIT", "trap -- 'echo bye $? $x' EXIT\n" * 2)
        self.run_cell("exit 4", "bye 4 3\n", status=EXIT, exit_code=4)
        self.run_cell("trap; echo $x", "3\n")
        self.run_cell("trap 'exit 6' EXIT; exit 5", "", status=EXIT, exit_code=6)
        self.run_cell("echo $x; (trap 'echo sub' EXIT)", "3\nsub\n")
        self.run_cell("trap '' INT; trap", "trap -- '' SIGINT\n")

    def test_what_a_new_shell_has_not(self):
        self.run_cell("sleep 20 & sleep 20 & exec 5</dev/null 8</dev/null")
        r = self.run_cell("exit 1", err=None, status=EXIT, exit_code=1)
        self.assertIn("2 background jobs go on by themselves", r.err)
        self.assertIn("descriptors 5 8 are closed", r.err)
        self.run_cell("jobs; pgrep -cfx 'sleep 20' -s $(ps -o sess= $$)", err=None, exit_code=0)

    def test_folder_that_is_gone(self):
        self.run_cell("mkdir d; cd d; rmdir ../d")
        r = self.run_cell("exit 1", err=None, status=EXIT, exit_code=1)
        self.assertIn("/d is gone", r.err)
        self.run_cell('[ "$PWD" = "$(pwd -P)" ] && echo fine', "fine\n")

    def test_a_disk_that_is_full_or_a_name_that_is_gone(self):
        """nothing of the kernel needs a file system"""
        self.run_cell("rm -rf \"$TMPDIR\"")
        self.run_cell("x=1; exit 2", status=EXIT, exit_code=2)
        self.run_cell("set -C; exit 3", status=EXIT, exit_code=3)
        r = self.run_cell("echo $x; no-such-command", "1\n", err=None, exit_code=127)
        self.assertIn("line 1", r.err)

    def test_names_that_cells_take(self):
        self.run_cell("eval() { echo mine; }; printf() { echo mine; }; set() { echo mine; }; alias builtin='echo mine'; true")
        self.run_cell("exit 3", err=None, status=EXIT, exit_code=3)
        self.run_cell("printf x; unalias builtin; unset -f eval printf set", "mine\n", err=None)

    def test_large_state(self):
        self.run_cell("x=$(head -c 20000000 /dev/zero | tr '\\0' y); echo ${#x}", "20000000\n")
        self.after(0.5, self.interrupt)
        self.run_cell("sleep 60", err=None, status=INTERRUPTED, exit_code=130)
        self.run_cell("echo ${#x}", "20000000\n")

    def test_no_process_for_a_new_shell(self):
        """no room for another shell: the cell's end is told, then the kernel ends"""
        self.run_cell("x=1")
        import resource
        pid = self.kernel.process.pid
        if os.geteuid() == 0:
            self.skipTest("root's processes are not counted by RLIMIT_NPROC")
        resource.prlimit(pid, resource.RLIMIT_NPROC, (1, 1))
        r = self.run_cell("exit 3", err=None, status=EXIT, exit_code=3)
        self.assertIn("cannot be started", r.err)
        self.assertEqual(1, self.kernel.process.wait(5))


class Plain(Case, Both):
    shell = "/bin/sh"

    def setUp(self):
        if os.path.realpath(self.shell).endswith("bash"):
            self.skipTest("/bin/sh is bash here")
        super().setUp()

    def test_functions_are_lost(self):
        self.run_cell("f() { echo f; }; f", "f\n")
        r = self.run_cell("exit 1", err=None, status=EXIT, exit_code=1)
        self.assertIn("functions are lost", r.err)


if __name__ == "__main__":
    tap.main()
