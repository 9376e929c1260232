"""stdin, stdout and stderr of the cells."""

import builtins
import getpass
import io
import os
import select
import sys
from io import TextIOWrapper

from . import wire


class StdinNotAvailable(EOFError):
    """input() was called although the call gave no stdin."""

    __module__ = "builtins"  # how tracebacks name it


def open_output(fd):
    """A text stream on fd: a line goes out at its end, the rest when the cell ends. Closing it
    leaves the descriptor open."""
    raw = io.FileIO(fd, "w", closefd=False)
    return TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)


def install_outputs():
    for fd in (1, 2):
        os.set_blocking(fd, True)
    sys.stdout = sys.__stdout__ = open_output(1)
    sys.stderr = sys.__stderr__ = open_output(2)


def flush_outputs():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # a stream that code put there, or closed


def _is_open(stream):
    try:
        return stream is not None and not getattr(stream, "closed", False)
    except Exception:  # ValueError: its buffer was detached
        return False


def settle_outputs():
    """flush_outputs() at the end of a cell, which may have closed what the next one needs."""
    try:
        if type(sys.stdout) is type(sys.stderr) is TextIOWrapper:
            sys.stdout.flush()
            sys.stderr.flush()
            return  # one that is closed would have raised
    except Exception:
        pass
    for name, fd in (("stdout", 1), ("stderr", 2)):
        if not _is_open(getattr(sys, name, None)):
            stream = open_output(fd)
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
    flush_outputs()


def complain(text):
    """Says something on stderr, whatever the cell made of it."""
    settle_outputs()
    try:
        print(text, file=sys.stderr)
    except Exception:
        pass


class _CellInput(io.RawIOBase):
    """What the call gives as stdin: DATA frames on the kernel's socket."""

    def __init__(self, channel, interrupts):
        self._channel = channel
        self._interrupts = interrupts
        self._rest = b""
        self.ended = False

    def readable(self):
        return True

    def readinto(self, target):
        while not self._rest and not self.ended:
            if not self._channel.readable():
                # This may be interrupted, read() may not. A thread that outlives its cell looks
                # now and then whether it still may read: what comes next is not for it.
                if not select.select([self._channel], [], [], 0.2)[0] or self.ended:
                    continue
            with self._interrupts:
                kind, flags, payload = self._channel.read()
                if kind == wire.DATA:
                    self._rest = payload
                    self.ended = bool(flags & wire.FLAG_FIN)
        n = min(len(target), len(self._rest))
        target[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n


class Stdin:
    """sys.stdin and input(): empty, but where a call gives input to its cell."""

    def __init__(self, channel, interrupts):
        self._channel = channel
        self._interrupts = interrupts
        self.is_open = False
        self._raw = None
        builtins.input = self.input
        getpass.getpass = self.getpass
        self.mend()

    def attach(self, channel):
        self._channel = channel

    def begin(self, is_open):
        """For a cell for which this changes: is there any?"""
        if is_open:
            self._raw = _CellInput(self._channel, self._interrupts)
            sys.stdin = TextIOWrapper(io.BufferedReader(self._raw), "utf-8", "replace")
        else:
            sys.stdin = TextIOWrapper(io.BytesIO(), "utf-8")
        self.is_open = is_open

    def end(self):
        if self._raw is not None:
            self._raw.ended = True
            self._raw = None

    @staticmethod
    def mend():
        """Between cells: one may have closed what the next one needs."""
        stream = getattr(sys, "stdin", None)
        if stream is sys.__stdin__ or not _is_open(stream):
            sys.stdin = TextIOWrapper(io.BytesIO(), "utf-8")

    def input(self, prompt="", /):
        """Reads a line of what the call gave as stdin."""
        return self._line("input()", prompt, sys.stdout)

    def getpass(self, prompt="Password: ", stream=None):
        """Reads a line of what the call gave as stdin; there is no terminal that would show it."""
        return self._line("getpass()", prompt, stream or sys.stderr)

    def _line(self, name, prompt, stream):
        stream.write(str(prompt))
        stream.flush()
        if not self.is_open:
            raise StdinNotAvailable(
                f"{name} has nothing to read: this call was given no stdin. Pass the lines that it "
                "shall read as `stdin` of run_code, or set the value in the code."
            )
        line = sys.stdin.readline()
        if not line:
            raise EOFError(f"{name} has nothing more to read: the stdin of this call has ended")
        return line[:-1] if line.endswith("\n") else line
