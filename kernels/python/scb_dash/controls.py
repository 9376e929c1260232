"""Controls: their identity over runs, and the value that each has now.

What is kept is what an event brought (a label, a number, a date as text), never an index, so that
options that moved do not shift. A value that is no longer among the options, or outside the range,
falls back to the default or is clamped, with a note.
"""

import datetime
import hashlib
import math

from . import frames
from .errors import Teach

OPTIONS_MAX = 1000
MISSING = object()


class Controls:
    def __init__(self, board):
        self.board = board
        self.raw = {}  # id: what events have set
        self.held = {}  # id: set inside a form that was not submitted yet
        self.known = {}  # id: the last node
        self.keys = {}  # id: its key in session_state
        self.forms = {}  # id: the form it is in
        self.callbacks = {}  # id: (function, args, kwargs)
        self.last = {}  # id: the value that the script last got

    def identity(self, kind, label, key):
        shown, board = self.board.shown, self.board
        what = (kind, label, key)
        n = board.controls_before(what) + shown.counts.get(what, 0)
        shown.counts[what] = shown.counts.get(what, 0) + 1
        text = "\0".join((kind, label, key or "", str(n)))
        return "k" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]

    def use(self, t, label, key, default, read, write, place=None, **fields):
        """One call of a control: its present value for the script.

        read(raw) gives the value, or raises ValueError where there is none such any more; write(value)
        is its opposite; default is raw."""
        board = self.board
        label, key = str(label), None if key is None else str(key)
        on_change, arguments = fields.pop("callback", (None, ()))
        cid = self.identity(t, label, key)
        raw = self.raw.get(cid, MISSING)
        state = board.state
        if key is not None and key in state and state._peek(key) != self.last.get(cid, MISSING):
            try:
                raw = write(state._peek(key))
            except Exception:
                raise Teach(f"{t} {label!r}: session_state[{key!r}] holds no value of it") from None
        changed = raw is not MISSING
        if raw is MISSING:
            raw = default
        try:
            value, raw = read(raw)
        except (ValueError, TypeError, KeyError):
            if changed:
                board.note(f"{t} {label!r}: {raw!r} is no longer among the choices; "
                           "it is back at its default.")
                self.raw.pop(cid, None)
            value, raw = read(default)
        node = {"id": cid, "t": t, "label": label, "value": raw}
        node.update({k: v for k, v in fields.items() if v is not None and v is not False})
        form = board.form_of(place)
        if form:
            node["form"] = self.forms[cid] = form
        self.known[cid] = node
        self.last[cid] = value
        self.callbacks[cid] = on_change, arguments
        if key is not None:
            self.keys[cid] = key
            state[key] = value
        board.shown.controls.append(cid)
        board.put(node, place)
        return value

    # ---- events ----

    def find(self, name, alive):
        """The id of a control given by id or label; None of unknown ones."""
        if name in alive:
            return name
        found = [cid for cid in alive if self.known[cid]["label"] == name]
        if not found:
            found = [cid for cid in alive if self.known[cid]["label"].lower() == str(name).lower()]
        return found[0] if found else None

    def hold(self, cid, value):
        """Keeps a value set in a form until it is submitted."""
        self.held[cid] = value

    def held_of(self, form):
        """What was set in a form; it is handed over once."""
        return {cid: self.held.pop(cid) for cid in list(self.held) if self.forms.get(cid) == form}

    def set(self, cid, value):
        """Keeps what an event brought; True where it is new."""
        old = self.known[cid]["value"]
        self.raw[cid] = value
        if old == value and type(old) is type(value):
            return False
        self.known[cid] = dict(self.known[cid], value=value)
        self.last.pop(cid, None)
        key = self.keys.get(cid)
        if key is not None:
            self.board.state._values.pop(key, None)
        return True


# ---- what the kinds accept ----


def labels_of(options, format_func):
    """(values, labels) of what a script gives as options."""
    if options is None:
        return [], []
    if isinstance(options, dict):
        return list(options.values()), [str(k) for k in options]
    if frames.is_series(options) or frames.is_index(options) or frames.is_array(options):
        unique = options.unique() if hasattr(options, "unique") else sorted(set(options.tolist()))
        values = [v for v in map(frames.scalar, list(unique)) if v is not None]
        if not getattr(getattr(options, "dtype", None), "ordered", False):
            try:
                values = sorted(values)
            except TypeError:
                values = sorted(values, key=str)
    elif frames.is_frame(options):
        values = [v for v in map(frames.scalar, options.iloc[:, 0].tolist()) if v is not None]
    elif isinstance(options, type) and hasattr(options, "__members__"):
        values = list(options)
    else:
        values = list(options)
    labels, seen = [], {}
    for value in values:
        text = str(format_func(value)) if format_func is not None else _label(value)
        seen[text] = seen.get(text, 0) + 1
        labels.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return values, labels


def _label(value):
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if hasattr(value, "name") and hasattr(type(value), "__members__"):
        return value.name
    return str(value)


def choice(values, labels):
    """(read, write) of one of several."""
    def read(raw):
        if raw is None:
            return None, None
        at = labels.index(raw if isinstance(raw, str) else _label(raw))
        return values[at], labels[at]

    return read, lambda value: None if value is None else labels[values.index(value)]


def choices(values, labels):
    """(read, write) of any of several. Those that are gone are left out."""
    def read(raw):
        raw = [raw] if isinstance(raw, str) else list(raw or ())
        at = [labels.index(str(one)) for one in raw if str(one) in labels]
        return [values[i] for i in at], [labels[i] for i in at]

    return read, lambda chosen: [labels[values.index(one)] for one in chosen]


def number(kind, low, high, step, board, label):
    """(read, write) of a number within a range."""
    def one(raw):
        value = float(raw)
        if not math.isfinite(value):
            raise ValueError(raw)
        if kind is int:
            value = int(round(value))
        kept = min(max(value, low if low is not None else value), high if high is not None else value)
        if kept != value:
            board.note(f"{label}: value {value:.12g} is outside {_end(low)}–{_end(high)}; using {kept:.12g}.")
        return kind(kept)

    def read(raw):
        if raw is None:
            return None, None
        if isinstance(raw, (list, tuple)):
            pair = sorted(one(part) for part in raw[:2])
            if len(pair) != 2:
                raise ValueError(raw)
            return tuple(pair), pair
        value = one(raw)
        return value, value

    return read, lambda value: list(value) if isinstance(value, (list, tuple)) else value


def _end(value):
    return "…" if value is None else str(value)


def to_date(value):
    """A date, or a datetime, of what a script or an event gives."""
    if value is None or value == "today":
        return datetime.date.today()
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    if isinstance(value, str):
        return datetime.datetime.fromisoformat(value) if len(value) > 10 else (
            datetime.date.fromisoformat(value))
    if type(value).__name__ == "datetime64":
        return to_date(str(value)[:19])
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value
    raise Teach(f"{value!r} is no date; write datetime.date(2024, 1, 31) or \"2024-01-31\"")


def as_day(value):
    value = to_date(value)
    return value.date() if isinstance(value, datetime.datetime) else value


def day(low, high, board, label, convert=as_day):
    """(read, write) of a date, or of two, within a range."""
    def one(raw):
        value = convert(raw)
        kept = max(value, low) if low is not None else value
        kept = min(kept, high) if high is not None else kept
        if kept != value:
            board.note(f"{label}: {value} is outside {_end(low)}–{_end(high)}; using {kept}.")
        return kept

    def read(raw):
        if raw is None:
            return None, None
        if isinstance(raw, (list, tuple)):
            pair = sorted(one(part) for part in raw[:2])
            if len(pair) != 2:
                raise ValueError(raw)
            return tuple(pair), [part.isoformat() for part in pair]
        value = one(raw)
        return value, value.isoformat()

    return read, lambda value: (
        [part.isoformat() for part in value] if isinstance(value, (list, tuple)) else value.isoformat()
    )
