"""Errors that teach: what is wrong, where, and what to write instead."""

import builtins
import difflib
import linecache
import re
import sys

from . import frames



class Teach(Exception):
    """A mistake in a call of scb; its text says what to write."""


def title(error):
    """What stands above an error's text in the page."""
    if isinstance(error, Teach):
        return "The code needs a change"
    return "KeyboardInterrupt" if isinstance(error, Overtaken) else type(error).__name__


class Stop(BaseException):
    """scb.stop()"""


class Rerun(BaseException):
    """scb.rerun()"""


class Overtaken(KeyboardInterrupt):
    """Stopped between two units, for a newer event."""


class Surprise(Exception):
    """A unit did what was not foreseen: plan again, with that unit and the objects it needs added."""

    def __init__(self, index, ids=()):
        super().__init__(index)
        self.index, self.ids = index, set(ids)


_NOT_THERE = {
    "chat": "A dashboard has controls, not a chat: selectbox, multiselect, slider, date_range, "
            "checkbox, text_input, button.",
    "file_uploader": "Files come into the sandbox by the files tool; read them by their path.",
    "camera_input": "There is no camera; read a picture by its path and show it with image().",
    "audio": "Sound is not played here. Write the file and give it with download_button().",
    "video": "Films are not played here. Write the file and give it with download_button().",
    "map": "Maps are not drawn here: chart(df, kind=\"scatter\", x=\"lon\", y=\"lat\").",
    "pydeck_chart": "Maps are not drawn here: chart(df, kind=\"scatter\", x=\"lon\", y=\"lat\").",
    "components": "Foreign HTML is not run here; use the functions of scb.",
    "html": "HTML is not run here; use markdown().",
    "secrets": "There are no secrets in a dashboard; a policy gives them to the session.",
    "query_params": "A dashboard has no address; use session_state.",
    "switch_page": "A dashboard is one page; use tabs().",
}


def unknown_name(name, known):
    for start, advice in _NOT_THERE.items():
        if name.startswith(start):
            return AttributeError(f"scb has no {name!r}. {advice}")
    near = difflib.get_close_matches(name, known, 3)
    advice = f"Did you mean {', '.join(near)}?" if near else (
        "It has metric, chart, table, markdown, columns, tabs and controls such as selectbox, "
        "slider, date_range."
    )
    return AttributeError(f"scb has no {name!r}. {advice}")


def no_column(where, name, columns):
    shown = ", ".join(map(str, columns[:12])) + (" …" if len(columns) > 12 else "")
    near = difflib.get_close_matches(str(name), [str(c) for c in columns], 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return Teach(f"{where}: no column {name!r}. Columns: {shown}.{hint}")


# ---- how a failure in the script is told ----


def _user_frames(error, filenames):
    found, trace = [], error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name in filenames or name.startswith("<cell "):
            found.append((name, trace.tb_lineno, trace.tb_frame))
        trace = trace.tb_next
    return found


def line_of(error, filename):
    """The script's line at which it failed, the innermost; None where there is none."""
    if isinstance(error, SyntaxError) and error.filename == filename:
        return error.lineno
    lines = [line for name, line, _ in _user_frames(error, {filename}) if name == filename]
    return lines[-1] if lines else None


def message(error, namespace=None):
    """`KeyError: 'reveneu' (columns: …)`"""
    try:
        said = str(error)
    except Exception:
        said = "(its text could not be made)"
    name = type(error).__name__
    if isinstance(error, Teach):
        return said
    said = f"{name}: {said}" if said else name
    return said + _hint(error, namespace or {})


def _hint(error, namespace):
    if isinstance(error, KeyError) and error.args:
        frame = _frame_at(error)
        if frame is not None:
            columns = [str(c) for c in frame.columns]
            near = difflib.get_close_matches(str(error.args[0]), columns, 1)
            text = f" (columns: {', '.join(columns[:12])}{' …' if len(columns) > 12 else ''})"
            return text + (f". Did you mean {near[0]!r}?" if near else "")
    if isinstance(error, NameError):
        found = re.search(r"name '([^']+)'", str(error))
        names = [n for n in namespace if not n.startswith("_")] + dir(builtins)
        near = difflib.get_close_matches(found.group(1), names, 1) if found else []
        if near:
            return f". Did you mean {near[0]!r}?"
    if isinstance(error, AttributeError) and getattr(error, "obj", None) is not None:
        columns = error.obj.columns if frames.is_frame(error.obj) else None
        name = getattr(error, "name", None) or ""
        known = [str(c) for c in columns] if columns is not None else []
        near = difflib.get_close_matches(name, known, 1)
        if near:
            return f". Did you mean the column {near[0]!r}?"
    return ""


def _frame_at(error):
    """The DataFrame whose column was asked for, from the frames of pandas that failed."""
    pandas = sys.modules.get("pandas")
    kind = getattr(pandas, "DataFrame", None)
    trace = error.__traceback__
    found = None
    while trace is not None and kind is not None:
        owner = trace.tb_frame.f_locals.get("self")
        if isinstance(owner, kind):
            found = owner
        trace = trace.tb_next
    return found


def traceback_text(error, filename):
    """The user's own lines, outermost first."""
    lines = []
    for name, line, frame in _user_frames(error, {filename}):
        text = linecache.getline(name, line).strip()
        function = frame.f_code.co_name
        where = "" if function == "<module>" else f" in {function}()"
        lines.append(f"line {line}{where}: {text}")
    return "\n".join(lines[-8:])
