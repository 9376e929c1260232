"""Versioned replay: after an event a dashboard shows what running the whole script again would show,
and only the units run again that have to (docs/dashboard.md, "What runs again").

Every unit's bindings are kept as versions; before a unit runs again, names are bound to the versions
before it. Objects changed in place are restored or made again (plan.py). What a unit really bound and
changed is looked at after it ran; a surprise plans anew, and at last runs everything.
"""

import copy
import difflib
import random
import sys
import time

from . import errors, figures, frames, nodes, objects, units, values
from .errors import Rerun, Stop
from .footprint import Footprint
from .plan import Plan, Start, Switches, meets
from .record import ABSENT, Record, Snapshot

RERUNS_MAX = 5
REPLANS_MAX = 3
PRINTED_MAX = 20_000
SNAPSHOTS_MAX = 256 << 20
COPY_SPEED = 2e9  # bytes a second
_SURE_STATEMENTS = frozenset(
    "Assign AnnAssign AugAssign Import ImportFrom FunctionDef AsyncFunctionDef ClassDef".split()
)


class Cause:
    """What an event changes: values of controls by id, a button that was clicked, or everything."""

    def __init__(self, values=None, clicked=None, everything=False):
        self.values, self.clicked, self.everything = values or {}, clicked, everything


class Surprise(Exception):
    """A unit did what was not foreseen: plan again, with these units and needs added."""

    def __init__(self, index, ids=()):
        super().__init__(index)
        self.index, self.ids = index, set(ids)


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


class Engine:
    def __init__(self, board, kernel):
        self.board, self.kernel = board, kernel
        self.namespace = kernel.namespace
        self.walker = objects.Walker(self.namespace, self.token)
        board.figures = figures.Figures(board)
        self.script = None
        self.interrupt = None
        self.records = {}  # uid: Record
        self.base = {}  # names that the script binds, as they were before
        self.outside = {}  # names that it only reads
        self.base_random = None
        self.snapshots = {}  # token: [Snapshot]
        self.exempt = set()  # ids that session_state reaches: they are meant to go on
        self.pending = set()  # uids that have not run since something they need changed
        self.failed = None  # (uid, Shown of the error)
        self.stopped = None  # uid of the unit that called stop()
        self.end = None
        self._unsafe = set()  # tokens of which no snapshot is kept: readers hand them on
        self._tokens = {}
        self._copies = []  # so that the ids of _tokens stay theirs
        self._uids = 0
        self._state_base = {}
        self._at = 0
        self.runs = self.fresh_runs = 0  # for tests

    # ---- identities ----

    def token(self, value):
        """The id of an object, or of the one whose copy it is."""
        return self._tokens.get(id(value), id(value))

    def _stands_for(self, made, token):
        self._tokens[id(made)] = token
        self._copies.append(made)

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
            elif record is not None:
                parts.append(_stale(record.shown) if unit.uid in self.pending else record.shown)
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
            script = units.Script(source, f"<dashboard {self.board.id}>")
        except (SyntaxError, ValueError) as error:
            if self.script is None:
                self.script = units.Script("", f"<dashboard {self.board.id}>")
                self._index = {}
            self._say_failed(None, error, None)
            return ""
        start, init = self._align(script)
        self.board.service.enter(self.board)
        try:
            self._base_names(script)
        finally:
            self.board.service.leave()
        return self._settle(init, start, steps, started)

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
            self.base_random = _random_states()

    # ---- an event ----

    def event(self, cause, steps):
        started = time.perf_counter()
        board, start = self.board, Start()
        changed = {cid for cid, value in cause.values.items() if board.controls.set(cid, value)}
        board.clicked = cause.clicked
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
                    function(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:
            self._say_failed(None, error, None)
            return ""
        finally:
            board.service.leave()
        for name, value in self.outside.items():
            if self.namespace.get(name, ABSENT) is not value:
                start.names.add(name)
        return self._settle(init, start, steps, started)

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
        self._state_kept = _deep_copy(live) if self.exempt else None

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
                base_init |= plan.dirty | {surprise.index}
                if surprise.ids:
                    needs.setdefault(surprise.index, set()).update(surprise.ids)
        self._fresh(steps)

    def _reset_state(self):
        kept = self._state_kept
        self.board.state._values = _deep_copy(kept) if kept is not None else dict(self._state_base)
        if kept is not None:
            self._state_base = dict(self.board.state._values)

    def _fresh(self, steps):
        """Everything again, from the namespace that there was."""
        self.fresh_runs += 1
        self._graveyard += self.records.values()
        self.records = {}
        self._restore_base()
        self._reset_state()
        for segment in list(self.board.figures.managers):
            self.board.figures.rewind(segment)
        start = Start()
        plan = Plan(self, set(range(len(self.script.units))), start, {}, len(self.script.units))
        self._walk(plan, start, steps, fresh=True)

    def _restore_base(self):
        for token, snapshots in list(self.snapshots.items()):
            for snapshot in snapshots:
                if self.token(self.base.get(snapshot.name, ABSENT)) == token:
                    made = _copy_of(snapshot.copy)
                    self._stands_for(made, token)
                    self.base[snapshot.name] = made
                    break
        self.snapshots = {}

    def _walk(self, plan, start, steps, fresh=False):
        """Runs what the plan says, in order; skips what turns out not to be touched after all."""
        names, ids, modules = set(start.names), set(start.ids), set(start.modules)
        files = False
        self.board.figures.enter(self._segments())
        now, state, chance = dict(self.base), dict(self._state_base), self.base_random
        self._rewound = set()
        try:
            for i, unit in enumerate(plan.units):
                for at, gone, changed in start.removed:
                    if at == i:
                        names |= gone
                        ids |= changed
                record = self.records.get(unit.uid)
                touched = record is None or record.foot & names or meets(record.ids, ids) or (
                    modules and record.modules & modules) or (files and record.reads_files) or (
                    record.opaque and (names or ids))
                if touched and i not in plan.dirty:
                    raise Surprise(i)
                if i in plan.dirty and (touched or i in plan.init or i in plan.forced or not Switches.cut_off):
                    self._at = i
                    old = record
                    rewound = plan.restores.get(i, {})
                    new = self._run(i, unit, plan, now, state, chance, rewound, fresh)
                    self._compare(old, new, names, now)
                    ids |= new.changed | (old.changed if old is not None else set()) | set(self._rewound)
                    files |= new.writes_files
                    modules |= self.modules_set_by(unit) if unit.effects.sets_modules else set()
                    steps.after_unit()
                    record = new
                else:
                    names -= record.binds.keys()
                    self.pending.discard(unit.uid)
                chance = self._apply(record, now, state, chance)
                if record.stopped:
                    self._stop_at(i, plan)
                    return
            if plan.limit == len(self.script.units):
                self.stopped = None
        except Surprise:
            raise
        except Rerun:
            self._wait(plan, self._at)
            raise
        except BaseException as error:
            if self._inner is None:
                raise
            self._interrupted_at(plan, error)
        finally:
            self.board.figures.leave()
            self.board.state._values = state
        self._finish_figures()

    @staticmethod
    def _apply(record, now, state, chance):
        """The versions after a unit."""
        for name, value in record.binds.items():
            if name.startswith("§"):
                if value is ABSENT:
                    state.pop(name[1:], None)
                else:
                    state[name[1:]] = value
            elif name == "<random>":
                chance = value
            else:
                now[name] = value
        return chance

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

    def _interrupted_at(self, plan, error):
        """A unit failed: it and what was still to run wait for the next event."""
        self._wait(plan, self._at)
        self._say_failed(plan.units[self._at], error, self._inner)

    def _wait(self, plan, i):
        """What was still to run from unit i on is pending."""
        self.pending |= {plan.units[j].uid for j in plan.dirty if j >= i}
        self.pending |= {u.uid for u in self.script.units[i:] if u.uid not in self.records}

    def _say_failed(self, unit, error, shown):
        filename = self.script.filename
        line = errors.line_of(error, filename) or (unit.line if unit is not None else None)
        message = errors.message(error, self.namespace)
        if isinstance(error, KeyboardInterrupt):
            self.interrupt = error
            message = "Stopped before it was done."
        story = f"Line {line} failed: {message}" if line else f"Failed: {message}"
        self.board.error = {"story": story + (f"; shown up to line {line - 1}." if line and line > 1 else "")}
        board = self.board
        part = board.begin(f"e{unit.uid}" if unit is not None else "error", "")
        if shown is not None:
            part.items, part.controls, part.notes = list(shown.items), list(shown.controls), shown.notes
            part.counts = shown.counts
        board.put({"t": "error", "title": type(error).__name__, "line": line, "text": message,
                   "code": errors.traceback_text(error, filename)}, "")
        board.shown = nodes.Shown()
        if unit is None:
            self.end = part
        else:
            self.failed = unit.uid, part

    # ---- one unit ----

    def _bind(self, now):
        namespace = self.namespace
        for name, value in now.items():
            if value is ABSENT:
                namespace.pop(name, None)
            else:
                namespace[name] = value

    def _run(self, i, unit, plan, now, state, chance, restores, fresh):
        """Runs a unit on the versions before it: its new Record."""
        self.runs += 1
        board, namespace = self.board, self.namespace
        if Switches.versions:
            self._bind(now)
        readers = self._restore(i, unit, restores, now)
        print_ = Footprint(unit, namespace, self.walker, self.script.names)
        segment = self._segment(i, unit, print_)
        self._check_old(i, plan, print_, segment, readers, fresh)
        sure, deep = print_.judge() if Switches.mutations else ([], False)
        self._snapshot(unit, print_, sure, now)
        look = objects.Look(print_.reach.objects, deep and Switches.verify)
        board.state._values = dict(state)
        watch = board.state._begin()
        _set_random(chance)
        before = dict(namespace)
        shown = board.begin(unit.uid, self._inside(unit))
        record = Record(shown)
        failed = None
        self._inner = None
        if segment is not None:
            board.figures.activate(segment)
        began = time.perf_counter()
        board.ran.append(f"line {unit.line}: {unit.head()}")
        try:
            self._call(unit, record)
        except (Stop, Rerun) as stop:
            record.stopped = isinstance(stop, Stop)
            if isinstance(stop, Rerun):
                failed = stop
        except (Exception, KeyboardInterrupt) as error:
            failed, self._inner = error, shown
        record.cost = time.perf_counter() - began
        if segment is not None or "matplotlib.pyplot" in sys.modules:
            segment = self._segment(i, unit, Footprint(unit, namespace, self.walker, self.script.names)) or segment
            if segment is not None:
                board.figures.collect(segment)
        self._observe(record, unit, print_, look, sure, deep, before, watch, state, chance, failed, segment)
        self._check_readers(i, record, readers, now)
        old = self.records.get(unit.uid)
        if old is not None:
            self._graveyard.append(old)
        if failed is not None and not isinstance(failed, Rerun) and old is not None:
            record.binds = {**old.binds, **record.binds}
            record.changed |= old.changed
            record.keep += old.keep
        self.records[unit.uid] = record
        if isinstance(failed, Rerun):
            self._apply(record, now, state, chance)
        if failed is not None:
            raise failed
        self.pending.discard(unit.uid)
        if self.failed is not None and self.failed[0] == unit.uid:
            self.failed = None
        return record

    def _inside(self, unit):
        for name in reversed(unit.blocks):
            container = self.namespace.get(name)
            if isinstance(container, nodes.Container):
                return container._scb_id
        return ""

    def _call(self, unit, record):
        result = eval(unit.code, self.namespace)
        if unit.code.co_flags & 0x80:
            result = self.kernel.run_coroutine(result)
        if unit.shows and result is not None and not isinstance(result, (nodes.Element, nodes.Container)):
            if not (";" in unit.text and unit.text.rstrip().endswith(";")):
                values.show(self.board.api, result, _name_of(unit))

    def _observe(self, record, unit, print_, look, sure, deep, before, watch, state, chance, failed, segment):
        """What it read, bound and changed."""
        effects_ = unit.effects
        record.foot = print_.names
        record.ids = frozenset(print_.reach.ids)
        record.modules = frozenset(print_.reach.modules)
        record.opaque = print_.opaque
        record.reads_files = effects_.reads_files or any(
            f.reads & {"open"} or f.attributes & {"read_csv", "read_text", "read_bytes"}
            for f in print_.function_effects)
        record.writes_files = effects_.writes_files or any(
            f.reads & {"open"} or f.attributes & {"to_csv", "write_text", "savefig", "to_parquet", "to_pickle"}
            for f in print_.function_effects)
        self._note_bound(record, unit, print_, before, failed)
        self._note_state(record, watch, state)
        after = _random_states()
        if chance[1] is None and after[1] is not None:  # numpy came with this unit
            self.base_random = chance[0], after[1]
            record.binds["<random>"] = after
        elif _differs(after, chance):
            record.binds["<random>"] = after
            record.foot.add("<random>")
        if Switches.mutations:
            changed = [*sure, *look.changed(deep and Switches.verify)]
            record.keep = changed
            record.changed = self._ids_of(changed)
            if objects.ANYTHING in print_.reach.ids and (effects_.stores or effects_.methods or deep):
                record.changed.add(objects.ANYTHING)
        if segment is not None:
            record.segment = segment
            record.ids |= {("figures", segment)}
            record.changed.add(("figures", segment))

    def _note_bound(self, record, unit, print_, before, failed):
        namespace = self.namespace
        bound = {}
        for name, value in namespace.items():
            if before.get(name, ABSENT) is not value:
                bound[name] = value
        for name in before.keys() - namespace.keys():
            bound[name] = ABSENT
        sure = failed is None and type(unit.tree).__name__ in _SURE_STATEMENTS
        for name in print_.may_bind - bound.keys():
            if name in namespace and sure and name in unit.effects.writes:
                bound[name] = namespace[name]
            else:
                record.foot.add(name)  # perhaps bound to what it was; then an earlier change matters
        record.binds = bound
        for name in bound.keys() - self.base.keys():
            self.base[name] = before.get(name, ABSENT)
        for name in record.foot - self.script.names - self.base.keys():
            if name in namespace:
                self.outside[name] = namespace[name]
        record.bind_ids = {
            name: self.walker.walk([value]).ids for name, value in bound.items() if value is not ABSENT
        }

    def _note_state(self, record, watch, state):
        record.foot |= {"§" + str(key) for key in watch.reads}
        live = self.board.state._values
        for key in watch.writes:
            record.binds["§" + str(key)] = live.get(key, ABSENT)

    def _ids_of(self, changed):
        ids = set()
        for value in changed:
            kind = objects.kind_of(value)
            ids.add(self.token(value))
            if kind == objects.FRAME:
                ids |= objects.buffers_of(value)
            elif kind == objects.ARRAY:
                ids.add(objects.owner_of(value))
            elif kind == objects.FUNCTION:
                ids |= {id(cell) for cell in value.__closure__ or ()}
        return ids

    # ---- older states of objects ----

    def _check_old(self, i, plan, print_, segment, readers, fresh):
        """Does the unit reach an object that a later unit has changed, which nobody took back?"""
        if fresh or not Switches.backward:
            return
        later = set()
        for unit in self.script.units[i:]:
            record = self.records.get(unit.uid)
            if record is not None:
                later |= record.changed
        for _, _, changed in plan.start.removed:
            later |= changed
        later -= self.exempt | self._rewound | readers.keys()
        ids = print_.reach.ids | ({("figures", segment)} if segment is not None else set())
        if meets(ids, later):
            wanted = (ids & later) or ids | later
            known = plan.needs.get(i, set())
            old = self.records.get(plan.units[i].uid)
            if not wanted <= known | (set(old.ids) if old is not None else set()) or i not in plan.dirty:
                raise Surprise(i, wanted)
            if self._still_old(wanted, i):
                raise Surprise(i, wanted)

    def _still_old(self, wanted, i):
        """Is one of them really the live object, and not only one that has taken its id?"""
        tokens = {self.token(v): v for u in self.script.units[i:] if (r := self.records.get(u.uid))
                  for v in r.keep}
        return any(token in tokens for token in wanted)

    def _restore(self, i, unit, restores, now):
        """Puts objects back as they were before this unit. A mere reader gets the snapshot itself."""
        readers = {}
        for token, snapshot in restores.items():
            if self.token(now.get(snapshot.name, ABSENT)) != token:
                continue  # another object has its name by now
            record = self.records.get(unit.uid)
            mutates = record is not None and token in record.changed
            value = _copy_of(snapshot.copy) if mutates else snapshot.copy
            if mutates:
                self._stands_for(value, token)
                self._rewound.add(token)
                self._replace(snapshot.name, token, value, i, now)
                self.namespace[snapshot.name] = value
            else:
                readers[token] = snapshot
                self._stands_for(value, token)
                self.namespace[snapshot.name] = value
        return readers

    def _replace(self, name, token, value, i, now):
        """The live object is another one now: in the version that this unit reads, and the base's."""
        now[name] = value
        for unit in reversed(self.script.units[:i]):
            record = self.records.get(unit.uid)
            if record is not None and name in record.binds:
                record.binds[name] = value
                record.bind_ids[name] = self.walker.walk([value]).ids
                return
        self.base[name] = value

    def _check_readers(self, i, record, readers, now):
        for token, snapshot in readers.items():
            ids = self.walker.walk([snapshot.copy]).ids
            if meets(record.changed, ids) or any(
                meets(own, ids) for name, own in record.bind_ids.items() if name != snapshot.name
            ):
                self.snapshots.pop(token, None)
                self._unsafe.add(token)
                raise Surprise(i, {token})
            if snapshot.name in now and now[snapshot.name] is not ABSENT:
                self.namespace[snapshot.name] = now[snapshot.name]
                if record.binds.get(snapshot.name) is snapshot.copy:
                    del record.binds[snapshot.name]
                    record.bind_ids.pop(snapshot.name, None)

    def _pin(self, value):
        """Tables that show a frame go on showing it as it was shown."""
        ids = self._ids_of([value])
        for part in self.shown_parts():
            for table in part.tables.values():
                table.pin(ids)

    def _snapshot(self, unit, print_, sure, now):
        """Keeps what is about to be changed, where a copy is cheaper than making it again."""
        for value in sure:
            kind = objects.kind_of(value)
            if kind in (objects.FRAME, objects.ARRAY):
                self._pin(value)
            if kind not in (objects.FRAME, objects.ARRAY) and not _is_generator(value):
                continue
            names = [n for n, v in self.namespace.items() if v is value and not n.startswith("_")]
            if len(names) != 1:
                continue
            name, token = names[0], self.token(value)
            from_base = self.base.get(name, ABSENT) is value
            if name not in self.script.names and not from_base:
                self.base[name] = value
                from_base = True
            if not from_base and (token in self._unsafe or self._has_alias(name, value)):
                continue
            size = 64 if _is_generator(value) else objects.size_of(value)
            if not from_base and size / COPY_SPEED > self._cost_of(name, token):
                continue
            held = self.snapshots.setdefault(token, [])
            held[:] = [s for s in held if s.uid != unit.uid]
            if self._snapshot_bytes() + size <= SNAPSHOTS_MAX:
                held.append(Snapshot(unit.uid, name, _copy_of(value), size))

    def _snapshot_bytes(self):
        return sum(s.size for held in self.snapshots.values() for s in held)

    def _has_alias(self, name, value):
        """Does any other name, now or in a version that is kept, hold it or its memory?"""
        ids = self.walker.walk([value]).ids
        for unit in self.script.units:
            record = self.records.get(unit.uid)
            if record is None:
                continue
            for other, own in record.bind_ids.items():
                if other != name and meets(own, ids):
                    return True
            for other, own in record.bind_ids.items():
                if other == name and record.binds.get(other) is not value and not own.isdisjoint(ids):
                    return True
        return False

    def _cost_of(self, name, token):
        """Seconds to make an object again: its maker and its changers, and what they stand on."""
        total, seen, todo = 0.0, set(), [name]
        while todo:
            wanted = todo.pop()
            for unit in self.script.units:
                record = self.records.get(unit.uid)
                if record is None or unit.uid in seen:
                    continue
                if wanted in record.binds or (wanted == name and token in record.changed):
                    seen.add(unit.uid)
                    total += record.cost
        return total

    # ---- guesses, segments, the end ----

    def guess(self, unit, i):
        """What a unit that never ran may reach, with the versions before it."""
        now = dict(self.base)
        for earlier in self.script.units[:i]:
            record = self.records.get(earlier.uid)
            if record is not None:
                now.update({n: v for n, v in record.binds.items() if n[0] not in "§<"})
        self._bind(now)
        return set(Footprint(unit, self.namespace, self.walker, self.script.names).reach.ids)

    def _segments(self):
        return [u.uid for u in self.script.units
                if u.effects.new_figure or ((r := self.records.get(u.uid)) and r.segment == u.uid)]

    def _segment(self, i, unit, print_):
        """Which figures the unit draws on; None where it draws on none."""
        if not print_.draws():
            return None
        board = self.board
        if print_.makes_figure():
            if unit.uid not in board.figures.order:
                board.figures.order.append(unit.uid)
            return unit.uid
        for value in print_.reach.objects.values():
            if objects.kind_of(value) == objects.DRAWING:
                found = board.figures.segment_of(value)
                if found is not None:
                    return found
        for earlier in reversed(self.script.units[:i]):
            record = self.records.get(earlier.uid)
            if earlier.effects.new_figure or (record is not None and record.segment == earlier.uid):
                return earlier.uid
        return "0"

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


def _stale(shown):
    """As it was, marked: it has not run since."""
    part = copy.copy(shown)
    part.items = [(place, {**node, "stale": True}) for place, node in shown.items]
    return part


def _name_of(unit):
    text = unit.text.strip()
    return text if text.isidentifier() else None


def _same_version(name, old, new):
    if name == "<random>":
        return not _differs(old, new)
    return objects.same_value(old, new)


# ---- random numbers ----


def _random_states():
    numpy_random = sys.modules.get("numpy.random")
    return random.getstate(), None if numpy_random is None else numpy_random.get_state()


def _differs(a, b):
    if a is None or b is None:
        return a is not b
    if a[0] != b[0]:
        return True
    if a[1] is None or b[1] is None:
        return False  # numpy came in between
    return a[1][2:] != b[1][2:] or a[1][1].tobytes() != b[1][1].tobytes()


def _set_random(states):
    if states is None:
        return
    random.setstate(states[0])
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None and states[1] is not None:
        numpy_random.set_state(states[1])


def _is_generator(value):
    return type(value).__module__.startswith("numpy.random") and type(value).__name__ == "Generator"


def _copy_of(value):
    if frames.is_frame(value) or frames.is_series(value) or frames.is_array(value):
        return value.copy()
    return copy.deepcopy(value)


def _deep_copy(values_):
    try:
        return copy.deepcopy(values_)
    except Exception:
        return dict(values_)
