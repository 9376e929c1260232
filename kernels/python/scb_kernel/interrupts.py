"""SIGINT: ends the cell that runs, and nothing else."""

import signal
from _signal import getsignal  # getsignal() makes enums, at 2 µs each
from _thread import get_ident


class Interrupts:
    """`running` is true while the code of a cell runs: only then does SIGINT raise. One that comes
    before is swallowed, and `missed` says so: it may have been meant for the cell that begins, which
    the agent then says on the socket, too. Used as a context it holds interrupts back from what must
    not be torn (a frame on the socket); within, `let_through()` is a context in which they come."""

    def __init__(self):
        self.running = False
        self.missed = False
        self._held = 0
        self._pending = False
        self._main = get_ident()

    def install(self):
        # Code may have set a handler of its own, which is then that cell's alone.
        if getsignal(signal.SIGINT) != self._handle:
            signal.signal(signal.SIGINT, self._handle)

    def _handle(self, signum, frame):
        if not self.running:
            self.missed = True
            return
        if self._held:
            self._pending = True
        else:
            raise KeyboardInterrupt

    def __enter__(self):
        if get_ident() == self._main:
            self._held += 1

    def __exit__(self, *exc):
        if get_ident() != self._main:
            return
        self._held -= 1
        if self._held == 0 and self._pending:
            self._pending = False
            if self.running:
                raise KeyboardInterrupt

    def let_through(self):
        return _LetThrough(self)


class _LetThrough:
    """One that was held back comes at its beginning."""

    def __init__(self, interrupts):
        self._interrupts, self._held = interrupts, 0

    def __enter__(self):
        own = self._interrupts
        self._held, own._held = own._held, 0
        if own._pending:
            own._pending = False
            own._held = self._held
            raise KeyboardInterrupt

    def __exit__(self, *exc):
        self._interrupts._held = self._held
