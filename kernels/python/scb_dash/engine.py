"""Runs a dashboard's units in the kernel's namespace."""

import sys
import time

from . import errors, nodes, units
from .errors import Rerun, Stop

RERUNS_MAX = 5
PRINTED_MAX = 20_000


class Cause:
    """What an event changes: values of controls by id, a button that was clicked, or everything."""

    def __init__(self, values=None, clicked=None, everything=False):
        self.values, self.clicked, self.everything = values or {}, clicked, everything


class Printed:
    """sys.stdout while a unit runs: goes on as before, and is kept for the model's text."""

    def __init__(self, stream):
        self._stream, self.parts, self._left = stream, [], PRINTED_MAX

    def write(self, text):
        if self._left > 0:
            self.parts.append(text[: self._left])
            self._left -= len(text)
        return self._stream.write(text)

    def __getattr__(self, name):
        return getattr(self._stream, name)


class Figures:
    def was_shown(self, figure):
        pass


class Engine:
    def __init__(self, board, kernel):
        self.board, self.kernel = board, kernel
        self.namespace = kernel.namespace
        self.script = None
        self.shown = []
        self.interrupt = None
        board.figures = Figures()

    def shown_parts(self):
        return self.shown

    def shown_before(self):
        return self.shown

    shown_by_others = shown_before

    def controls_alive(self):
        return [cid for shown in self.shown for cid in shown.controls]

    def raise_interrupt(self):
        error, self.interrupt = self.interrupt, None
        if error is not None:
            raise error

    def load(self, source, steps):
        self.script = units.Script(source, f"<dashboard {self.board.id}>")
        for i, unit in enumerate(self.script.units):
            unit.uid = str(i + 1)
        return self._run(steps)

    def event(self, cause, steps):
        for cid, value in cause.values.items():
            self.board.controls.set(cid, value)
        self.board.clicked = cause.clicked
        return self._run(steps)

    def _run(self, steps):
        board, began = self.board, time.perf_counter()
        self.shown, board.error, board.ran = [], None, []
        board.service.enter(board)
        self.namespace.setdefault("st", board.service.module)
        self.namespace["scb"] = board.service.module
        printed = Printed(sys.stdout)
        sys.stdout = printed
        try:
            for unit in self.script.units:
                self._unit(unit)
                steps.after_unit()
        except Stop:
            pass
        except (Exception, KeyboardInterrupt) as error:
            self._failed(unit, error)
        finally:
            sys.stdout = printed._stream
            board.service.leave()
            board.clicked = None
            board.ms = round(1000 * (time.perf_counter() - began), 1)
        return "".join(printed.parts)

    def _unit(self, unit):
        inside = self.namespace[unit.blocks[-1]]._scb_id if unit.blocks else ""
        shown = self.board.begin(unit.uid, inside)
        self.board.ran.append(f"line {unit.line}: {unit.head()}")
        try:
            value = eval(unit.code, self.namespace)
        finally:
            self.shown.append(shown)
        if unit.shows and value is not None and not isinstance(value, nodes.Element):
            from . import values

            values.show(self.board.api, value)

    def _failed(self, unit, error):
        line = errors.line_of(error, self.script.filename) or unit.line
        message = errors.message(error, self.namespace)
        self.board.error = {"story": f"Line {line} failed: {message}; shown up to line {line - 1}."}
        shown = self.board.begin("error", "")
        self.board.put({"t": "error", "title": type(error).__name__, "line": line, "text": message})
        self.shown.append(shown)
        if isinstance(error, KeyboardInterrupt):
            self.interrupt = error
