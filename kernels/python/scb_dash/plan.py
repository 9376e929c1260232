"""Which units an event runs again, before any of them runs.

Forward: what reads a changed name, or reaches an object that a re-run unit changes. Backward: what a
re-run unit needs as it was then, although the live object is newer: it comes from a snapshot, or the
units that made and changed it run again, too.
"""

from .objects import ANYTHING, memory_of


class Switches:
    """Parts of the rules, to be turned off by tests that must then fail."""

    backward = True
    mutations = True
    versions = True
    cut_off = True
    cut_off_needed = True  # what is needed again as it was is not cut off
    cut_off_objects = True  # … nor what reaches an object that was changed
    checked = True  # a unit about to run is asked whether it sees objects as they were
    verify = True


class Start:
    """What differs before the first unit: names and objects, and what edits took out at which place."""

    def __init__(self):
        self.names = set()
        self.ids = set()
        self.modules = set()
        self.removed = []  # (index, names, ids) of units that the new code has no more


def meets(ids, others):
    """Do two sets of ids share one, or may they?"""
    if not ids or not others:
        return False
    if ANYTHING in ids or ANYTHING in others:
        return True
    return not ids.isdisjoint(others)


class Plan:
    def __init__(self, engine, init, start, needs, limit):
        self.engine, self.start, self.needs, self.limit = engine, start, needs, limit
        self.units = engine.script.units[:limit]
        self.records = [engine.records.get(u.uid) for u in self.units]
        self.init = {i for i in init if i < limit}
        self.dirty = set(self.init)
        self.forced = set()
        self.restores = {}  # index: {token: Snapshot}
        self.rewound = {}  # token: index
        self.covered = {}  # token: ids of the memory that comes back with its snapshot
        self._settle()

    def _settle(self):
        while True:
            before = len(self.dirty)
            self._forward()
            if Switches.backward:
                self._backward()
            if len(self.dirty) == before:
                return

    def _predicted(self, i):
        """(names, ids) that a unit may bind and change, as far as its last run and its text say."""
        record, unit = self.records[i], self.units[i]
        names = set(unit.effects.writes)
        ids = set()
        if record is not None:
            names |= record.binds.keys()
            ids = record.changed
        return names, ids

    def _forward(self):
        names, ids, modules = set(self.start.names), set(self.start.ids), set(self.start.modules)
        files = False
        for i in range(len(self.units)):
            for at, gone, changed in self.start.removed:
                if at == i:
                    names |= gone
                    ids |= changed
            record = self.records[i]
            if i not in self.dirty and (
                record is None or record.foot & names or meets(record.ids, ids)
                or (modules and record.modules & modules) or (files and record.reads_files)
                or (record.opaque and (names or ids))
            ):
                self.dirty.add(i)
            ids |= {token for token, at in self.rewound.items() if at == i}
            if i in self.dirty:
                bound, changed = self._predicted(i)
                names |= bound
                if Switches.mutations:
                    ids |= changed
                files |= record is not None and record.writes_files
                if self.units[i].effects.sets_modules and record is not None:
                    modules |= self.engine.modules_set_by(self.units[i])
            else:
                names -= record.binds.keys()

    def _later(self):
        """For each index, the ids that units from there on have changed in the live objects."""
        after = [set() for _ in range(len(self.engine.script.units) + 1)]
        gone = set().union(*(changed for _, _, changed in self.start.removed)) if self.start.removed else set()
        after[-1] = gone
        every = [self.engine.records.get(u.uid) for u in self.engine.script.units]
        for i in range(len(every) - 1, -1, -1):
            after[i] = after[i + 1] | every[i].changed if every[i] is not None else after[i + 1]
        return after

    def _backward(self):
        later = self._later()
        exempt = self.engine.exempt
        for i in sorted(self.dirty):
            ids = self._reached(i)
            if ANYTHING in ids and later[i] - exempt:
                new = set(later[i]) - exempt
            else:
                new = (ids & later[i]) - exempt
                if ANYTHING in later[i] and ids:
                    new |= ids - exempt
            back = [token for token, at in self.rewound.items() if at <= i]
            new -= set(back).union(*(self.covered[token] for token in back))
            if new:
                self._older(i, new)
            self._files(i)
            self._modules(i)

    def _reached(self, i):
        record = self.records[i]
        ids = set(record.ids) if record is not None else self.engine.guess(self.units[i], i)
        return ids | self.needs.get(i, set())

    def _files(self, i):
        """A reader of files that a later unit wrote: earlier writers write again."""
        record = self.records[i]
        if record is None or not record.reads_files:
            return
        if any(r is not None and r.writes_files for r in self.records[i:]):
            for j in range(i):
                if self.records[j] is not None and self.records[j].writes_files and j not in self.dirty:
                    self.dirty.add(j)
                    self.forced.add(j)

    def _modules(self, i):
        """What it knows of a module is set from i on: those before it set theirs again."""
        record = self.records[i]
        set_by = self.engine.modules_set_by
        if record is None or not record.modules or not any(u.effects.sets_modules for u in self.units):
            return
        later = set().union(*(set_by(u) for u in self.units[i:])) & record.modules
        if later:
            self._force(j for j in range(i) if j not in self.dirty and later & set_by(self.units[j]))

    def _older(self, i, new):
        """Unit i needs these objects as they were before it."""
        made_again = set()
        for token in new:
            snapshot, at = self._snapshot(i, token)
            if snapshot is None:
                made_again.add(token)
                continue
            self.covered[token] = snapshot.memory | memory_of(snapshot.original)
            if self._changes(i, token) or at < i:
                self.restores.setdefault(at, {})[token] = snapshot
                self.rewound[token] = at
                between = [j for j in range(at, i) if self._changes(j, token)]
                self._force(between)
            else:
                self.restores.setdefault(i, {})[token] = snapshot
        # nothing else lies in a snapshot's memory that stands for an object of its own
        made_again.difference_update(*(self.covered[token] for token in new - made_again))
        if made_again:
            self._force(
                j for j in range(len(self.units))
                if j != i and self.records[j] is not None and (
                    any(meets(made_again, own) for own in self.records[j].bind_ids.values())
                    or (j < i and meets(made_again, self.records[j].changed)))
            )

    def _force(self, indices):
        for j in indices:
            self.forced.add(j)
            self.dirty.add(j)

    def _changes(self, j, token):
        record = self.records[j] if j < len(self.records) else None
        return record is not None and token in record.changed

    def _snapshot(self, i, token):
        """(snapshot, index before which it was taken): of the first change at or after i, else the
        latest one before. None where there is none that holds."""
        found = None
        for snapshot in self.engine.snapshots.get(token, ()):
            at = self.engine.index_of(snapshot.uid)
            if at is None or at >= self.limit:
                continue
            if at >= i and any(self._changes(j, token) for j in range(i, at)):
                continue
            if any(j in self.dirty and self._changes(j, token) for j in range(at)) and (
                self.rewound.get(token, 1 << 30) >= at
            ):
                continue  # what was changed before it changes again
            if found is None or at > found[1]:
                found = snapshot, at
        return found or (None, None)
