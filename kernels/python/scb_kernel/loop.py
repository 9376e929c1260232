"""The kernel's loop: reads a cell, runs it, says how it ended.

A cell that parses as Python is compiled and run here, in 10 µs for a small one; what does not
(`%magic`, `!command`, `name?`) goes to IPython, where there is one, in the same namespace.
"""

import __future__
import ast
import builtins
import fcntl
import gc
import importlib.machinery
import linecache
import os
import sys
import types

from . import errors, figures, paths, show, streams, twin, warm, wire
from .interrupts import Interrupts

_ALLOW_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_ANNOTATIONS = __future__.annotations.compiler_flag
_CO_COROUTINE = 0x80

# What one cell may show; the agent keeps no more (LIMIT_RESULTS, LIMIT_RESULT_BYTES).
SHOW_MAX = 64
SHOW_BYTES_MAX = 4 * 1024 * 1024
# Cells whose text is kept for tracebacks: a session lives for a day.
SOURCES_MAX = 2000


_DONE_OK = wire.frame(
    wire.DONE, wire.tlv(wire.TAG_CELL_STATUS, wire.CELL_OK) + wire.tlv(wire.TAG_EXIT_CODE, 0)
)


class UnknownMode(Exception):
    """The broker is newer than this kernel."""


class IPythonNotAvailable(Exception):
    """A cell needs IPython, and the sandbox has none."""


def _needs_ipython(source):
    """The first line that only IPython understands: (number, text), or None."""
    for number, line in enumerate(source.split("\n"), 1):
        text = line.strip()
        if text.startswith(("!", "%", "?")) or text.endswith("?"):
            return number, text
        before, equals, after = text.partition("=")
        if equals and after.lstrip().startswith(("!", "%")):
            return number, text
    return None


def _silenced(source, last):
    """Does a `;` follow the last expression? Nothing but blanks, brackets and comments can stand
    there beside it."""
    lines = source.encode().split(b"\n")
    rest = [lines[last.end_lineno - 1][last.end_col_offset :]] + lines[last.end_lineno :]
    return any(b";" in line.partition(b"#")[0] for line in rest)


class Kernel:
    def __init__(self, fd=None):
        """fd is the socket to the agent. A template has none: attach() gives one to its forks."""
        self.interrupts = Interrupts()
        self.channel = wire.Channel(fd, self.interrupts)
        self.stdin = streams.Stdin(self.channel, self.interrupts)
        # Functions of the cells belong to a __main__ where pickle and multiprocessing find them.
        self._own_main = sys.modules["__main__"]
        self.module = types.ModuleType("__main__")
        sys.modules["__main__"] = self.module
        self.namespace = vars(self.module)
        self.namespace["__builtins__"] = builtins
        self.source = ""
        self.cell_name = ""
        self._count = 0  # of the next cell
        self._next_name = ""
        self._flags = _ALLOW_AWAIT
        self._outgoing = b""
        self._shown = self._shown_bytes = self._not_shown = 0
        self._shell = None
        with paths.without_cwd():
            self._has_ipython = importlib.machinery.PathFinder.find_spec("IPython") is not None
        self._asyncio = self._loop = None  # made for the first await
        self._dashboards = None  # for the first request of one
        self.workspace = ""  # where it began
        self._left_alone = []

    # ---- what code sees ----

    def install(self):
        def leave(code=None):
            """Ends the cell as sys.exit() does; the kernel lives on."""
            raise SystemExit(code)

        def display(*values, **ignored):
            """Shows values as the results of a cell are shown."""
            for value in values:
                self.emit(show.bundle(value))

        builtins.exit = builtins.quit = leave
        builtins.display = display
        streams.install_outputs()
        figures.install(self.emit)
        os.register_at_fork(
            before=streams.flush_outputs,
            after_in_child=lambda: self.channel.after_fork_in_child(),  # of today's channel
        )

    def event_loop(self):
        """That of top-level awaits, or None."""
        return self._loop

    def attach(self, fd):
        """In a fork: another agent's end, or the same agent's for another kernel."""
        if self._loop is not None:
            # Its epoll set is shared with the kernel that was forked: neither used nor closed here.
            self._left_alone.append(self._loop)
            self._loop = self._asyncio.new_event_loop()
            self._asyncio.set_event_loop(self._loop)
        self.channel = wire.Channel(out_of_the_way(fd), self.interrupts)
        self.stdin.attach(self.channel)

    def emit(self, mimes):
        """Shows a MIME bundle at once."""
        self._emit(show.display_frame(mimes, False), False)

    def _emit(self, frame, at_end):
        """Shows what a frame holds: at once, or with the end of the cell."""
        if self._shown >= SHOW_MAX or self._shown_bytes >= SHOW_BYTES_MAX:
            self._not_shown += 1
            return
        self._shown += 1
        self._shown_bytes += len(frame)
        if at_end:
            self._outgoing += frame
        else:
            streams.flush_outputs()
            self.channel.display(frame)

    def show_result(self, value, silenced):
        if value is None:
            return
        self.namespace["_"] = value
        if not silenced:
            self._emit(show.result_frame(value), True)

    # ---- running ----

    def run_coroutine(self, coroutine):
        """Runs a top-level await to its end, on one loop for all cells."""
        asyncio = self._import_asyncio()
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)  # asyncio.run() unsets it
        task = self._loop.create_task(coroutine)
        try:
            return self._loop.run_until_complete(task)
        except (KeyboardInterrupt, SystemExit):
            task.cancel()
            self._loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            raise

    def _import_asyncio(self):
        if self._asyncio is None:
            with paths.without_cwd():
                import asyncio
            self._asyncio = asyncio
        return self._asyncio

    async def _run_async(self, codes):
        value = None
        for code in codes:
            value = eval(code, self.namespace)
            if code.co_flags & _CO_COROUTINE:
                value = await value
        return value

    def _run_codes(self, codes):
        """Runs them in turn: the value of the last."""
        for code in codes:
            if code.co_flags & _CO_COROUTINE:
                self.namespace.setdefault("asyncio", self._import_asyncio())  # who awaits has use for it
                return self.run_coroutine(self._run_async(codes))
        value = None
        for code in codes:
            value = eval(code, self.namespace)
        return value

    def _load_ipython(self):
        """The shell, or None where the sandbox has no IPython that works."""
        if self._shell is None and self._has_ipython:
            from . import ipython

            with self.interrupts:
                try:
                    self._shell = ipython.load(self)
                except Exception as error:
                    self._has_ipython = False
                    print(f"IPython cannot be loaded: {error!r}", file=sys.stderr)
        return self._shell

    def _run_in_ipython(self, source):
        from . import ipython

        ipython.run(self._shell, source)

    def _is_bare_magic(self, source):
        """`ls`, `pwd`, `ls -l`: an expression by Python's grammar, but the name is bound to nothing."""
        words = source.split(None, 2)
        if not words[0].isidentifier() or (len(words) > 1 and words[1][:1] != "-"):
            return False
        return words[0] not in self.namespace and not hasattr(builtins, words[0])

    def _serve_request(self, mode, request):
        """A request instead of code. Who answers it is loaded at the first one."""
        if mode != "dashboard":
            raise UnknownMode(f"this kernel has no mode {mode[:40]!r}")
        if self._dashboards is None:
            home = os.path.dirname(sys.modules[__package__].__path__[0])  # as the sandbox sees it
            with self.interrupts, paths.without_cwd():
                sys.path.insert(0, home)
                from scb_dash import service
            self._dashboards = service.Service(self)
        self._dashboards.answer(request)

    def newer_waits(self):
        """Does a request wait for which this one may give way? That is what its input says."""
        with self.interrupts:
            return self.channel.frame_waits(wire.DATA)

    def plain_python(self, source):
        """The Python that IPython makes of a text; None where the sandbox has no IPython."""
        shell = self._load_ipython()
        return None if shell is None else shell.transform_cell(source)

    def _in_ipython(self, source):
        """Runs it in IPython; False where there is none."""
        if not self._has_ipython or self._load_ipython() is None:
            return False
        self._run_in_ipython(source)
        return True

    def _execute(self, source):
        if self._shell is None and ("IPython" in source or "get_ipython" in source):
            self._load_ipython()
        # What is asked most often, one expression in one line, needs no tree; where a `=` stands it is
        # mostly a statement.
        code = None
        if "\n" not in source and "=" not in source:
            try:
                code = compile(source, self.cell_name, "eval", self._flags, True)
            except SyntaxError:
                pass
        if code is None:
            self._execute_tree(source)
        elif code.co_names and self._is_bare_magic(source) and self._in_ipython(source):
            pass
        elif code.co_flags & _CO_COROUTINE:
            self.show_result(self._run_codes((code,)), False)
        else:
            self.show_result(eval(code, self.namespace), False)

    def _execute_tree(self, source):
        try:
            tree = compile(source, self.cell_name, "exec", self._flags | ast.PyCF_ONLY_AST, True)
        except SyntaxError:
            if self._load_ipython() is None:
                line = _needs_ipython(source)
                if line is None:
                    raise
                raise IPythonNotAvailable(
                    f"line {line[0]} ({line[1][:80]}) needs IPython, which this sandbox does not "
                    "have. For a command use run_command, or subprocess.run([…]) in Python."
                ) from None
            tree = None
        if tree is None:
            self._run_in_ipython(source)
            return
        lone = len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr)
        if lone and self._is_bare_magic(source) and self._in_ipython(source):
            return

        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = tree.body.pop()
        # Both are compiled before either runs.
        codes = []
        if tree.body:
            codes.append(compile(tree, self.cell_name, "exec", self._flags, True))
            self._flags |= codes[0].co_flags & _ANNOTATIONS
        if last is not None:
            expression = ast.Expression(last.value)
            codes.append(compile(expression, self.cell_name, "eval", self._flags, True))
        value = self._run_codes(codes)
        if last is not None and value is not None:
            self.show_result(value, ";" in source and _silenced(source, last.value))

    def _catch_up(self):
        """A SIGINT came when no cell ran: was it for this one?"""
        self.interrupts.missed = False
        with self.interrupts:
            waits = self.channel.frame_waits(wire.INTERRUPT)
        if waits:
            raise KeyboardInterrupt

    def _finish_figures(self):
        try:
            figures.flush(lambda mimes: self._emit(show.display_frame(mimes, False), True))
        finally:
            figures.discard()

    def _run(self, source, mode):
        """Runs a cell: (status, exit code or None, the exception or None)."""
        interrupts = self.interrupts
        try:
            try:
                interrupts.running = True
                try:
                    if interrupts.missed:
                        self._catch_up()
                    if mode:
                        self._serve_request(mode, source)
                    else:
                        self._execute(source)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException:
                    self._finish_figures()
                    raise
                if figures.are_open():
                    self._finish_figures()
            finally:
                interrupts.running = False
        except KeyboardInterrupt as error:
            interrupts.running = False
            figures.discard()
            return wire.CELL_INTERRUPTED, None, error
        except SystemExit as error:
            figures.discard()
            return wire.CELL_EXIT, self._exit_code(error.code), error
        except BaseException as error:
            return wire.CELL_ERROR, 1, error
        return wire.CELL_OK, 0, None

    @staticmethod
    def _exit_code(code):
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xFF
        streams.complain(code)  # as Python does
        return 1

    def _make_ready(self):
        """What the next cell needs and can be done before it comes, when nobody waits."""
        self.interrupts.install()
        self.stdin.mend()
        self._count += 1
        self._next_name = f"<cell {self._count}>"
        linecache.cache.pop(f"<cell {self._count - SOURCES_MAX}>", None)

    def run_cell(self, source, stdin_open, mode=""):
        self.source = source
        name = self.cell_name = self._next_name
        if "\n" in source:
            lines = [line + "\n" for line in source.split("\n")]  # as the compiler counts them
        else:
            lines = [source + "\n"]
        linecache.cache[name] = (len(source), None, lines, name)
        self._outgoing = b""
        self._shown = self._shown_bytes = self._not_shown = 0
        if stdin_open or self.stdin.is_open:
            self.stdin.begin(stdin_open and not mode)  # a request's input is no code's
        self.channel.in_cell = True
        status, code, error = self._run(source, mode)
        if stdin_open:
            self.stdin.end()
        if self.channel.forked:
            self._end_fork(status, code, error)
        if self._not_shown:
            streams.complain(
                f"{self._not_shown} more results were not shown: a cell shows {SHOW_MAX}, 4 MiB together."
            )
        done = _DONE_OK if error is None else self._done(status, code, error)
        streams.settle_outputs()
        frames = self._outgoing + done
        self._outgoing = b""
        self.channel.end_cell(frames)

    @staticmethod
    def _done(status, code, error):
        body = wire.tlv(wire.TAG_CELL_STATUS, status)
        if code is not None:
            body += wire.tlv(wire.TAG_EXIT_CODE, code)
        if error is not None and status != wire.CELL_EXIT:
            body += wire.tlv(wire.TAG_ERROR_NAME, errors.name_of(error))
            body += wire.tlv(wire.TAG_ERROR_MESSAGE, errors.message_of(error))
            body += wire.tlv(wire.TAG_TRACEBACK, errors.format_error(error))
        return wire.frame(wire.DONE, body)

    @staticmethod
    def _end_fork(status, code, error):
        """The cell called os.fork(): the child ends where the cell does."""
        if error is not None and status != wire.CELL_EXIT:
            sys.stderr.write(errors.format_error(error).decode())
        streams.flush_outputs()
        os._exit(code if code is not None else 130)

    def send_ready(self):
        ready = wire.tlv(wire.TAG_LANGUAGE, "python")
        ready += wire.tlv(wire.TAG_ENGINE, "ipython" if self._has_ipython else "plain")
        ready += wire.tlv(wire.TAG_VERSION, sys.version.split()[0])
        ready += wire.tlv(wire.TAG_FEATURE, "fork")
        ready += wire.tlv(wire.TAG_FEATURE, "expect")
        self.channel.end_cell(wire.frame(wire.READY, ready))

    def expect(self):
        """A cell is about to come: goes the way of a small one as far as nothing of that is seen or
        stays, so that what lies on it is in the processor's caches again."""
        if self.channel.readable():
            return  # it has come already
        try:
            code = compile("0 + 0", self.cell_name, "eval", self._flags, True)
            show.result_frame(eval(code, self.namespace))
        except Exception:  # no memory, or a tracer of the code's own: the cell will say so
            pass

    def rehearse(self, fd):
        """Serves what is there to be read from the socket fd and leaves nothing of it behind."""
        kept = dict(self.namespace)
        self.attach(fd)
        self.serve()
        self.channel.close()
        self.channel = wire.Channel(None, self.interrupts)
        self.stdin.attach(self.channel)
        self.namespace.clear()
        self.namespace.update(kept)
        for number in range(1, self._count):
            linecache.cache.pop(f"<cell {number}>", None)
        self._count = 0
        self._flags = _ALLOW_AWAIT

    def serve(self):
        """Until the agent closes the socket."""
        # numpy would start a thread for each CPU when it is imported, and a kernel that has threads
        # cannot be forked (twin.py).
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        self.workspace = os.getcwd()
        self._make_ready()
        self.send_ready()
        if os.environ.pop("SCB_KERNEL_WARM", None):
            warm.up(self.channel)
        while True:
            try:
                kind, _, payload = self.channel.read()
            except (EOFError, OSError):
                return
            if kind == wire.CELL:
                try:
                    source, stdin_open, mode = _cell(payload)
                    self.run_cell(source, stdin_open, mode)
                except OSError:
                    return
                self._make_ready()
            elif kind == wire.FORK:
                twin.answer(self, self.channel.take_fds())
            elif kind == wire.EXPECT:
                self.expect()
            elif kind == wire.ENV:
                set_variables(payload)
            # else DATA that its cell did not read, or INTERRUPT that came too late


def _cell(payload):
    """What a CELL asks for: (source, whether input will come, mode: "" where the source is code)."""
    source, stdin_open, at = "", False, 0
    while at < len(payload):
        tag, begin, at = wire.tag_at(payload, at)
        if tag == wire.TAG_CODE:
            source = payload[begin:at].decode("utf-8", "replace")
        elif tag == wire.TAG_STDIN_MODE:
            stdin_open = payload[begin:at][-1:] == b"\1"
    mode = ""
    if "\0" in source:  # no code of Python holds one
        mode, _, source = source.partition("\0")
    if "\r" in source:
        source = source.replace("\r\n", "\n").replace("\r", "\n")
    return source, stdin_open, mode


def set_variables(payload):
    """Variables of the session, for a kernel that began before it was anybody's."""
    for tag, value in wire.tlvs(payload):
        if tag == wire.TAG_ENV:
            name, _, text = value.partition(b"=")
            os.environb[name] = text


def out_of_the_way(fd):
    """Moves a descriptor up, since code takes low ones for its own."""
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64)
    os.close(fd)
    return high


def main():
    kernel = Kernel(out_of_the_way(int(os.environ.pop("SCB_KERNEL_FD"))))
    kernel.install()
    gc.collect()
    gc.freeze()
    kernel.serve()
    streams.flush_outputs()
    os._exit(0)
