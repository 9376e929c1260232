"""Older states of objects: copies taken before a change, and whether what a unit needs is newer than it
should be (docs/dashboard.md, "What runs again")."""

import copy
import itertools
import math
import sys

from . import frames, objects
from .errors import Surprise
from .plan import Switches, meets
from .record import ABSENT, Snapshot

SNAPSHOTS_MAX = 256 << 20
COPY_SPEED = 2e9  # bytes a second
HELD_MAX = 64  # values of a container that are looked into for frames
_DATA = (objects.FRAME, objects.ARRAY)


class Copies:
    """A part of Engine."""

    def token(self, value):
        """The id of an object, or of the one whose copy it is."""
        return self._tokens.get(id(value), id(value))

    def _stands_for(self, made, token, snapshot):
        self._tokens[id(made)] = token
        self._copies.append(made)
        if id(snapshot.original) == token:
            self._roots[token] = snapshot.original

    def _forget_copies(self):
        """Copies that nobody else holds go, and with the last of them the object whose id they had."""
        kept = []
        while self._copies:
            made = self._copies.pop()
            if sys.getrefcount(made) > 2:  # this name, and the call's argument
                kept.append(made)
            else:
                del self._tokens[id(made)]
        self._copies = kept
        self.snapshots = {token: held for token, held in self.snapshots.items() if held}
        used = {*self._tokens.values(), *self.snapshots}
        self._roots = {token: value for token, value in self._roots.items() if token in used}

    def _ids_of(self, changed):
        ids, memory = set(), set()
        for value in changed:
            kind = objects.kind_of(value)
            ids.add(self.token(value))
            if kind in _DATA:
                memory |= objects.memory_of(value)
            elif kind == objects.FUNCTION:
                ids |= {id(cell) for cell in value.__closure__ or ()}
        return ids | memory | self._in_memory(memory)

    def _in_memory(self, memory):
        """Ids of the frames and arrays that the units so far have bound and that lie in it now: not in
        what they lay in when they were bound, where pandas has joined or replaced columns since."""
        if not memory:
            return set()
        records = [self.records.get(u.uid) for u in self.script.units[: self._at]]
        bound = [self.base, *(r.binds for r in records if r is not None)]
        ids = set()
        for value in (v for names in bound for v in names.values()):
            for one in _data_in(value):
                if not memory.isdisjoint(objects.memory_of(one)):
                    ids.add(self.token(one))
        return ids

    def _check_old(self, i, plan, print_, segment, readers, fresh):
        """Does the unit reach an object that a later unit has changed, which nobody took back?"""
        if fresh or not Switches.backward or not Switches.checked:
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
                self._stands_for(value, token, snapshot)
                self._rewound.add(token)
                self._replace(snapshot.name, token, value, i, now)
                self.namespace[snapshot.name] = value
            else:
                readers[token] = snapshot
                self._stands_for(value, token, snapshot)
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

    def _restore_base(self):
        for token, snapshots in list(self.snapshots.items()):
            for snapshot in snapshots:
                if self.token(self.base.get(snapshot.name, ABSENT)) == token:
                    made = _copy_of(snapshot.copy)
                    self._stands_for(made, token, snapshot)
                    self.base[snapshot.name] = made
                    break
        self.snapshots = {}

    def _pin(self, value):
        """Tables that show a frame go on showing it as it was shown."""
        ids = self._ids_of([value])
        for part in self.shown_parts():
            for table in part.tables.values():
                table.pin(ids)

    def _snapshot(self, unit, print_, sure, now):
        """Keeps what is about to be changed, where a copy is cheaper than making it again. Those that were
        taken when the unit ran last are of what was then. Returns the names of what cannot be made again
        and is not kept."""
        lost = []
        for held in self.snapshots.values():
            held[:] = [s for s in held if s.uid != unit.uid]
        for value in sure:
            kind = objects.kind_of(value)
            if kind in _DATA:
                self._pin(value)
            if kind not in _DATA and not _is_generator(value):
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
            size = 64 if _is_generator(value) else max(1, objects.size_of(value))
            cost = math.inf if from_base else self._cost_of(name, token)
            if size / COPY_SPEED > cost:
                continue
            if self._make_room(size, cost / size):
                snapshot = Snapshot(unit.uid, name, _copy_of(value), size, value, cost / size)
                self.snapshots.setdefault(token, []).append(snapshot)
            elif from_base:
                lost.append(name)
        return lost

    def _make_room(self, size, worth):
        """Copies that save less time a byte go first; what they were taken of is made again."""
        every = [(s.worth, token, s) for token, held in self.snapshots.items() for s in held]
        free = SNAPSHOTS_MAX - sum(s.size for _, _, s in every)
        every.sort(key=lambda one: one[0])
        gone = []
        for other, token, snapshot in every:
            if free >= size or other >= worth:
                break
            gone.append((token, snapshot))
            free += snapshot.size
        if free < size:
            return False
        for token, snapshot in gone:
            self.snapshots[token].remove(snapshot)
        return True

    def _drop_copies(self, i, ids):
        """A run ends before unit i: copies of what it has changed that were taken there are older."""
        for token, held in self.snapshots.items():
            if token in ids:
                held[:] = [s for s in held if (at := self._index.get(s.uid)) is not None and at < i]

    def _has_alias(self, name, value):
        """Does any other name, now or in a version that is kept, hold it or its memory?"""
        if self._in_memory(objects.memory_of(value)) - {self.token(value)}:
            return True
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


def _data_in(value):
    """Frames and arrays that a value is, or holds."""
    kind = objects.kind_of(value)
    if kind == objects.INSTANCE:
        value = getattr(value, "__dict__", {})
        kind = objects.kind_of(value)
    if kind == objects.MAPPING:
        value = value.values()
    elif kind != objects.SEQUENCE:
        return [value] if kind in _DATA else []
    return [v for v in itertools.islice(value, HELD_MAX) if objects.kind_of(v) in _DATA]


def _is_generator(value):
    return type(value).__module__.startswith("numpy.random") and type(value).__name__ == "Generator"


def _copy_of(value):
    if frames.is_frame(value) or frames.is_series(value) or frames.is_array(value):
        return value.copy()
    return copy.deepcopy(value)


def deep_copy(values_):
    try:
        return copy.deepcopy(values_)
    except Exception:
        return dict(values_)
