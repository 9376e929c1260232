"""Running one unit: on the versions before it, and looking afterwards at what it read, bound and
changed."""

import sys
import time

from . import chance, nodes, objects, values
from .errors import Rerun, Stop
from .footprint import Footprint
from .plan import Switches
from .record import ABSENT, Record

_SURE_STATEMENTS = frozenset(
    "Assign AnnAssign AugAssign Import ImportFrom FunctionDef AsyncFunctionDef ClassDef".split()
)


class Running:
    """A part of Engine."""

    def _bind(self, now):
        namespace = self.namespace
        for name, value in now.items():
            if value is ABSENT:
                namespace.pop(name, None)
            else:
                namespace[name] = value

    def _run(self, i, unit, plan, now, state, drawn, restores, fresh):
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
        lost = self._snapshot(unit, print_, sure, now)
        look = objects.Look(print_.reach.objects, deep and Switches.verify)
        board.state._values = dict(state)
        watch = board.state._begin()
        chance.restore(drawn)
        before = dict(namespace)
        shown = board.begin(unit.uid, self._inside(unit))
        for name in lost:
            board.note(f"{name} was made outside this code, which changes it in place, and is too large for a copy "
                       f"to be kept: each run changes it once more. Begin with {name} = {name}.copy().")
        record = Record(shown)
        failed = None
        self._inner = None
        if segment is not None:
            board.figures.activate(segment)
        began = time.perf_counter()
        board.ran.append(f"line {unit.line}: {unit.head()}")
        try:
            with self.kernel.interrupts.let_through():
                self._call(unit)
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
        self._observe(record, unit, print_, look, sure, deep, before, watch, state, drawn, failed, segment)
        self._check_readers(i, record, readers, now)
        old = self.records.get(unit.uid)
        if old is not None:
            self._graveyard.append(old)
        if failed is not None and not isinstance(failed, Rerun) and old is not None:
            record.binds = {**old.binds, **record.binds}
            record.changed |= old.changed
            record.keep += old.keep
        self.records[unit.uid] = record
        self.former.pop(unit.uid, None)
        if isinstance(failed, Rerun):
            self._apply(record, now, state, drawn)
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

    def _call(self, unit):
        result = eval(unit.code, self.namespace)
        if unit.code.co_flags & 0x80:
            result = self.kernel.run_coroutine(result)
        if unit.shows and result is not None and not isinstance(result, (nodes.Element, nodes.Container)):
            values.show(self.board.api, result, _name_of(unit))

    def _observe(self, record, unit, print_, look, sure, deep, before, watch, state, drawn, failed, segment):
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
        after = chance.states()
        if drawn[1] is None and after[1] is not None:  # numpy came with this unit
            self.base_random = drawn[0], after[1]
            record.binds["<random>"] = after
        elif chance.differ(after, drawn):
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


def _name_of(unit):
    text = unit.text.strip()
    return text if text.isidentifier() else None
