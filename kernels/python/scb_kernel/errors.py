"""Exceptions as the reader of a cell wants them: from the cell's own line on, in plain text."""

import os
import sys
import traceback

from .text import bounded, bounded_bytes

NAME_MAX = 200
MESSAGE_MAX = 8 * 1024  # characters
TRACEBACK_MAX = 24 * 1024  # bytes; the agent keeps no more

_here = os.path.dirname(os.path.abspath(__file__)) + os.sep
_script = os.path.join(os.path.dirname(_here.rstrip(os.sep)), "kernel.py")


def message_of(error):
    try:
        return bounded(str(error), MESSAGE_MAX)
    except Exception:
        return "(the exception's text could not be made)"


def name_of(error):
    return type(error).__name__[:NAME_MAX]


def _own(filename):
    if filename.startswith(_here) or filename == _script:
        return True
    ipython = sys.modules.get("IPython")
    root = getattr(ipython, "__file__", None)
    return bool(root) and filename.startswith(os.path.dirname(root) + os.sep)


def _drop_own(report, seen):
    """Takes the machinery's frames out of a report and of what it was caused by."""
    while report is not None and id(report) not in seen:
        seen.add(id(report))
        stack = report.stack
        first = next((i for i, f in enumerate(stack) if f.filename.startswith("<cell ")), 0)
        if first and _own(stack[0].filename):
            del stack[:first]  # the event loop of a top-level await, IPython's callers
        stack[:] = [f for f in stack if not _own(f.filename)]
        for part in getattr(report, "exceptions", None) or ():
            _drop_own(part, seen)
        _drop_own(report.__cause__, seen)
        report = report.__context__


def format_error(error):
    """The traceback as UTF-8. Never raises."""
    try:
        report = traceback.TracebackException(type(error), error, error.__traceback__)
        _drop_own(report, set())
        text = "".join(report.format())
        if text.startswith("Traceback") and not report.stack and report.__context__ is None:
            text = text.split("\n", 1)[1]
        return bounded_bytes(text, TRACEBACK_MAX)
    except Exception:  # out of memory, or an exception that cannot be printed
        text = f"{name_of(error)}: {message_of(error)}\n"
        return text.encode("utf-8", "backslashreplace")
