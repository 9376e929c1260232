"""Versioned replay: after an event a dashboard shows what running the whole script again would show,
and only the units run again that have to (docs/dashboard.md, "What runs again").

Every unit's bindings are kept as versions; before a unit runs again, names are bound to the versions
before it. Objects changed in place are restored or made again (plan.py). What a unit really bound and
changed is looked at after it ran; a surprise plans anew, and at last runs everything.
"""

import copy
import difflib
import sys
import time

from . import chance, errors, figures, nodes, objects, units, values
from .copies import Copies, deep_copy
from .errors import Overtaken, Rerun, Surprise
from .footprint import Footprint
from .plan import Plan, Start, Switches, meets
from .record import ABSENT
from .running import Running

RERUNS_MAX = 5
REPLANS_MAX = 3
PRINTED_MAX = 20_000


class Cause:
    """What an event changes: values of controls by id, a button that was clicked, or everything."""

    def __init__(self, values=None, clicked=None, everything=False):
        self.values, self.clicked, self.everything = values or {}, clicked, everything



class Printed:
    """sys.stdout while units run: goes on as before, and is kept for the model's text."""

    def __init__(self, stream):
        self._stream, self.parts, self._left = stream, [], PRINTED_MAX

    def write(self, text):
        if self._left > 0:
            self.parts.append(text[: self._left])
            self._left -= len(text)
        return self._stream.write(text)

    def __getattr__(self, name):
        return getattr(self._stream, name)


class Engine(Copies, Running):
    def __init__(self, board, kernel):
        self.board, self.kernel = board, kernel
        self.namespace = kernel.namespace
        self.walker = objects.Walker(self.namespace, self.token)
        board.figures = figures.Figures(board)
        self.script = None
        self.interrupt = None
        self.records = {}  # uid: Record
        self.former = {}  # uid: Shown, of what a whole run has not come to yet
        self.base = {}  # names that the script binds, as they were before
        self.outside = {}  # names that it only reads
        self.base_random = None
        self.snapshots = {}  # token: [Snapshot]
        self.exempt = set()  # ids that session_state reaches: they are meant to go on
        self.pending = set()  # uids that have not run since something they need changed
        self.failed = None  # (uid, Shown of the error)
        self.stopped = None  # uid of the unit that called stop()
        self.gave_way = False  # the last event did not come to its end, for a newer one
        self._may_give_way = False
        self.end = None
        self._unsafe = set()  # tokens of which no snapshot is kept: readers hand them on
        self._tokens = {}
        self._copies = []  # so that the ids of _tokens stay theirs …
        self._roots = {}  # … and these tokens those of what they were made from
        self._uids = 0
        self._state_base = {}
        self._at = 0
        self.runs = self.fresh_runs = self.replans = 0  # for tests

    def index_of(self, uid):
        return self._index.get(uid)

    def modules_set_by(self, unit):
        values_ = (self.namespace.get(name) for name in unit.effects.sets_modules)
        return {v.__name__ for v in values_ if objects.kind_of(v) == objects.MODULE}

    # ---- what the board asks ----

    def shown_parts(self):
        parts = []
        for unit in self.script.units if self.script else ():
            record = self.records.get(unit.uid)
            if self.failed is not None and unit.uid == self.failed[0]:
                parts.append(self.failed[1])
            else:
                shown = record.shown if record is not None else self.former.get(unit.uid)
                if shown is not None:
                    parts.append(_stale(shown) if unit.uid in self.pending else shown)
            if unit.uid == self.stopped:
                break
        if self.end is not None:
            parts.append(self.end)
        return parts

    def shown_before(self):
        for unit in self.script.units[: self._at]:
            record = self.records.get(unit.uid)
            if record is not None:
                yield record.shown

    shown_by_others = shown_before

    def controls_alive(self):
        return [cid for shown in self.shown_parts() for cid in shown.controls]

    def raise_interrupt(self):
        error, self.interrupt = self.interrupt, None
        if error is not None:
            raise error

    # ---- new code ----

    def load(self, source, steps):
        """Runs a script; of an edited one only what has changed, and what depends on that."""
        started = time.perf_counter()
        try:
            script = self._script(source)
        except (SyntaxError, ValueError) as error:
            if self.script is None:
                self.script = units.Script("", f"<dashboard {self.board.id}>")
                self._index = {}
            self._say_failed(None, error, None)
            return ""
        self.gave_way = False
        start, init = self._align(script)
        self.board.service.enter(self.board)
        try:
            self._base_names(script)
        finally:
            self.board.service.leave()
        return self._settle(init, start, steps, started)

    def _script(self, source):
        """What is not plain Python may be IPython's: %magic, !command."""
        filename = f"<dashboard {self.board.id}>"
        try:
            return units.Script(source, filename)
        except SyntaxError:
            plain = self.kernel.plain_python(source)
            if plain is None or plain == source:
                raise
            return units.Script(plain, filename)

    def _align(self, script):
        """Units of the old script keep their uid and record where their text is the same."""
        old = self.script.units if self.script is not None else []
        matcher = difflib.SequenceMatcher(None, [u.key for u in old], [u.key for u in script.units], False)
        start, kept = Start(), set()
        for a, b, n in matcher.get_matching_blocks():
            for k in range(n):
                script.units[b + k].uid = old[a + k].uid
                kept.add(a + k)
        places = {u.uid: i for i, u in enumerate(script.units) if u.uid}
        for i, unit in enumerate(old):
            if i in kept:
                continue
            record = self.records.pop(unit.uid, None)
            self.former.pop(unit.uid, None)
            self.pending.discard(unit.uid)
            following = [places[u.uid] for u in old[i:] if u.uid in places]
            if record is not None:
                at = following[0] if following else len(script.units)
                start.removed.append((at, set(record.binds), set(record.changed)))
                start.names |= {n for n in record.binds if n.startswith("<")}
        init = set()
        for i, unit in enumerate(script.units):
            if unit.uid is None:
                self._uids += 1
                unit.uid = str(self._uids)
                init.add(i)
        if self.failed is not None and self.failed[0] not in places:
            self.failed = None
        if self.stopped is not None and self.stopped not in places:
            self.stopped = None
        self.script = script
        self._index = {u.uid: i for i, u in enumerate(script.units)}
        return start, init

    def _base_names(self, script):
        namespace, module = self.namespace, self.board.service.module
        namespace["scb"] = module
        namespace.setdefault("st", module)
        for name in script.names - self.base.keys():
            self.base[name] = namespace.get(name, ABSENT)
        reads = set().union(*(u.effects.reads for u in script.units)) if script.units else set()
        for name, library in (("pd", "pandas"), ("np", "numpy")):
            if name in reads and name not in script.names and name not in namespace:
                try:
                    namespace[name] = __import__(library)
                except ImportError:
                    pass
        if self.base_random is None:
            self.base_random = chance.states()

    # ---- an event ----

    def event(self, cause, steps):
        started = time.perf_counter()
        board, start = self.board, Start()
        changed = {cid for cid, value in cause.values.items() if board.controls.set(cid, value)}
        board.clicked = cause.clicked
        if self.gave_way:
            self.gave_way, self.failed = False, None
        init = {
            i for i, u in enumerate(self.script.units) if (r := self.records.get(u.uid)) is not None
            and (r.shown.clicked or cause.clicked in r.shown.controls or changed & set(r.shown.controls))
        }
        if cause.everything:
            init = set(range(len(self.script.units)))
        board.service.enter(board)
        try:
            for cid in [*changed, *([cause.clicked] if cause.clicked else [])]:
                function, (args, kwargs) = board.controls.callbacks.get(cid, (None, ((), {})))
                if function is not None:
                    board.state._begin()
                    with self.kernel.interrupts.let_through():
                        function(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:
            self._say_failed(None, error, None)
            return ""
        finally:
            board.service.leave()
        for name, value in self.outside.items():
            if self.namespace.get(name, ABSENT) is not value:
                start.names.add(name)
        # a click that is cut off is lost for what has not run; values stay, and come with the next event
        self._may_give_way = cause.clicked is None
        try:
            return self._settle(init, start, steps, started)
        finally:
            self._may_give_way = False

    def _settle(self, init, start, steps, started):
        board = self.board
        printed = Printed(sys.stdout)
        board.ran, board.error = [], None
        board.service.enter(board)
        sys.stdout = printed
        try:
            for _ in range(RERUNS_MAX):
                self._begin_state(start)
                try:
                    self._replay(init, start, steps)
                    break
                except Rerun:
                    init, start = set(), Start()
                    board.clicked = None
        finally:
            sys.stdout = printed._stream
            self._final_names()
            self._graveyard = []
            self._forget_copies()
            board.service.leave()
            board.clicked = None
            board.ms = round(1000 * (time.perf_counter() - started), 1)
        return "".join(printed.parts)

    def _begin_state(self, start):
        """session_state goes on from where the last run left it: what it reads anew has changed."""
        live, before = self.board.state._values, self._state_base
        changed = set().union(*(r.changed for r in self.records.values())) if self.records else set()
        self.exempt = set()
        for key in live.keys() | before.keys():
            value = live.get(key, ABSENT)
            ids = self.walker.walk([value]).ids if value is not ABSENT else set()
            self.exempt |= ids
            if not objects.same_value(value, before.get(key, ABSENT)) or meets(ids, changed):
                start.names.add("§" + str(key))
        self._state_base = dict(live)
        self._state_kept = deep_copy(live) if self.exempt else None

    # ---- replay ----

    def _replay(self, init, start, steps):
        needs, base_init = {}, set(init)
        self._graveyard = []
        pending = {self._index[uid] for uid in self.pending if uid in self._index}
        for attempt in range(REPLANS_MAX + 1):
            init = base_init | pending
            limit = len(self.script.units)
            if self.stopped is not None:
                limit = self._index[self.stopped] + 1
                plan = Plan(self, init, start, needs, limit)
                if limit - 1 in plan.dirty:
                    limit = len(self.script.units)
            plan = Plan(self, init, start, needs, limit)
            try:
                if attempt:
                    self._reset_state()
                self._walk(plan, start, steps)
                return
            except Surprise as surprise:
                self.replans += 1
                base_init |= plan.dirty | {surprise.index}
                if surprise.ids:
                    needs.setdefault(surprise.index, set()).update(surprise.ids)
        self._fresh(steps)

    def _reset_state(self):
        kept = self._state_kept
        self.board.state._values = deep_copy(kept) if kept is not None else dict(self._state_base)
        if kept is not None:
            self._state_base = dict(self.board.state._values)

    def _fresh(self, steps):
        """Everything again, from the namespace that there was."""
        self.fresh_runs += 1
        self._graveyard += self.records.values()
        self.former.update((uid, record.shown) for uid, record in self.records.items())
        self.records = {}
        self._restore_base()
        self._reset_state()
        for segment in list(self.board.figures.managers):
            self.board.figures.rewind(segment)
        start = Start()
        plan = Plan(self, set(range(len(self.script.units))), start, {}, len(self.script.units))
        self._walk(plan, start, steps, fresh=True)

    def _walk(self, plan, start, steps, fresh=False):
        """Runs what the plan says, in order; skips what turns out not to be touched after all."""
        names, ids, modules = set(start.names), set(start.ids), set(start.modules)
        files = False
        self.board.figures.enter(self._segments())
        now, state, drawn = dict(self.base), dict(self._state_base), self.base_random
        self._rewound = set()
        try:
            for i, unit in enumerate(plan.units):
                for at, gone, changed in start.removed:
                    if at == i:
                        names |= gone
                        ids |= changed
                record = self.records.get(unit.uid)
                named = record is None or record.foot & names or (
                    modules and record.modules & modules) or (files and record.reads_files)
                reached = record is not None and (
                    meets(record.ids, ids) or (record.opaque and (names or ids)))
                if (named or reached) and i not in plan.dirty:
                    raise Surprise(i)
                if i in plan.dirty and (
                    named or (reached and Switches.cut_off_objects) or i in plan.init
                    or (i in plan.forced and Switches.cut_off_needed) or not Switches.cut_off
                ):
                    self._at = i
                    old = record
                    self._was = old.shown if old is not None else self.former.get(unit.uid)
                    self._give_way()
                    rewound = plan.restores.get(i, {})
                    steps.before_unit(old.cost if old is not None else 0)
                    new = self._run(i, unit, plan, now, state, drawn, rewound, fresh)
                    self._compare(old, new, names, now)
                    ids |= new.changed | (old.changed if old is not None else set()) | set(self._rewound)
                    files |= new.writes_files
                    modules |= self.modules_set_by(unit) if unit.effects.sets_modules else set()
                    steps.after_unit()
                    record = new
                else:
                    names -= record.binds.keys()
                    self.pending.discard(unit.uid)
                drawn = self._apply(record, now, state, drawn)
                if record.stopped:
                    self._stop_at(i, plan)
                    return
            if plan.limit == len(self.script.units):
                self.stopped = None
        except Surprise:
            raise
        except Rerun:
            self._wait(plan, self._at, names, ids)
            raise
        except BaseException as error:
            if self._inner is None:
                raise
            self._wait(plan, self._at, names, ids)
            gave_way = isinstance(error, Overtaken) or (
                isinstance(error, KeyboardInterrupt) and self._newer_waits())
            if gave_way and self._was is not None:
                self._inner = _stale(self._was)  # the newer event may be of a control in it
            self._say_failed(plan.units[self._at], error, self._inner)
            self.gave_way = gave_way
        finally:
            self.board.figures.leave()
            self.board.state._values = state
        self._finish_figures()

    @staticmethod
    def _apply(record, now, state, drawn):
        """The versions after a unit."""
        for name, value in record.binds.items():
            if name.startswith("§"):
                if value is ABSENT:
                    state.pop(name[1:], None)
                else:
                    state[name[1:]] = value
            elif name == "<random>":
                drawn = value
            else:
                now[name] = value
        return drawn

    @staticmethod
    def _compare(old, new, names, now):
        """Which names differ after the unit from what they were after its last run."""
        before = old.binds if old is not None else {}
        for name in before.keys() | new.binds.keys():
            if name in before and name in new.binds and _same_version(name, before[name], new.binds[name]):
                if name != "<random>" and before[name] is not ABSENT:
                    new.binds[name] = before[name]  # the version that others may hold already
                names.discard(name)
            else:
                names.add(name)

    def _stop_at(self, i, plan):
        self.stopped = plan.units[i].uid
        for unit in self.script.units[i + 1 :]:
            self.pending.add(unit.uid)

    def _newer_waits(self):
        return self._may_give_way and self.kernel.newer_waits()

    def _give_way(self):
        """Between units: where a newer event waits this one ends, and that one goes on from here."""
        if self._newer_waits():
            self._inner = nodes.Shown()
            raise Overtaken("a newer event came")

    def _wait(self, plan, i, names, ids):
        """What was still to run from unit i on is pending: what was planned, and what reads or reaches
        what the units before have changed unforeseen."""
        self.pending |= {plan.units[j].uid for j in plan.dirty if j >= i}
        for unit in self.script.units[i:]:
            record = self.records.get(unit.uid)
            if record is None or record.foot & names or meets(record.ids, ids):
                self.pending.add(unit.uid)
        self._drop_copies(i, ids)

    def _say_failed(self, unit, error, shown):
        filename = self.script.filename
        line = errors.line_of(error, filename) or (unit.line if unit is not None else None)
        message = errors.message(error, self.namespace)
        if isinstance(error, KeyboardInterrupt):
            self.interrupt = None if isinstance(error, Overtaken) else error
            message = "Stopped before it was done."
        story = f"Line {line} failed: {message}" if line else f"Failed: {message}"
        self.board.error = {"story": story + (f"; shown up to line {line - 1}." if line and line > 1 else "")}
        board = self.board
        part = board.begin(f"e{unit.uid}" if unit is not None else "error", "")
        if shown is not None:
            part.items, part.controls, part.notes = list(shown.items), list(shown.controls), shown.notes
            part.counts = shown.counts
        board.put({"t": "error", "title": errors.title(error), "line": line, "text": message,
                   "code": errors.traceback_text(error, filename)}, "")
        board.shown = nodes.Shown()
        if unit is None:
            self.end = part
        else:
            self.failed = unit.uid, part

    # ---- guesses, the end ----

    def guess(self, unit, i):
        """What a unit that never ran may reach, with the versions before it."""
        now = dict(self.base)
        for earlier in self.script.units[:i]:
            record = self.records.get(earlier.uid)
            if record is not None:
                now.update({n: v for n, v in record.binds.items() if n[0] not in "§<"})
        self._bind(now)
        return set(Footprint(unit, self.namespace, self.walker, self.script.names).reach.ids)

    def _final_names(self):
        now = dict(self.base)
        for unit in self.script.units:
            record = self.records.get(unit.uid)
            if record is not None:
                now.update({n: v for n, v in record.binds.items() if n[0] not in "§<"})
        self._bind(now)

    def _finish_figures(self):
        """Figures left open are shown; and where nothing is, the last value that can be."""
        self.end = None
        board = self.board
        if self.failed is None and self.stopped is None:
            left = board.figures.left_open()
            if left:
                self.end = figures.end_part(board, left)
            elif not any(s.items for s in self.shown_parts()):
                self._show_last()

    def _show_last(self):
        board = self.board
        for unit in reversed(self.script.units):
            record = self.records.get(unit.uid)
            for name in reversed(list(record.binds) if record is not None else []):
                value = record.binds[name]
                if name.isidentifier() and not name.startswith("_") and values.is_displayable(value):
                    self.end = board.begin("end", "")
                    board.note(f"Nothing was shown, so this is {name}, the last value that was made.")
                    values.show(board.api, value, name)
                    board.shown = nodes.Shown()
                    return
        error = errors.Teach(
            "Nothing to show. End the code with a DataFrame, Series, number, dict or figure, or call "
            "scb.metric/chart/table."
        )
        self._say_failed(None, error, None)

    _inner = None
    _was = None


def _stale(shown):
    """As it was, marked: it has not run since."""
    part = copy.copy(shown)
    part.items = [(place, {**node, "stale": True}) for place, node in shown.items]
    return part


def _same_version(name, old, new):
    if name == "<random>":
        return not chance.differ(old, new)
    return objects.same_value(old, new)