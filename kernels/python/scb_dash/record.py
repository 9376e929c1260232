"""What is remembered of a unit's last run, and of the namespace at its beginning."""

from . import objects

ABSENT = type("Absent", (), {"__repr__": lambda self: "absent"})()


class Record:
    def __init__(self, shown):
        self.shown = shown
        self.foot = set()  # names that it may have read; "§key" of session_state, "<random>"
        self.ids = frozenset()  # of objects that these reached
        self.modules = frozenset()
        self.changed = set()  # ids of objects that it changed in place
        self.keep = []  # those objects, so that their ids stay theirs
        self.binds = {}  # name: value, or ABSENT where it was deleted
        self.bind_ids = {}  # name: ids that the value reached
        self.cost = 0.0
        self.reads_files = self.writes_files = False
        self.opaque = False
        self.segment = None  # of figures
        self.stopped = False
        self.printed = ""

    def reaches(self, ids):
        return any(not ids.isdisjoint(own) for own in self.bind_ids.values())


class Snapshot:
    """A copy of an object as it was before a unit changed it."""

    def __init__(self, uid, name, copy, size, original, worth):
        self.uid, self.name, self.copy, self.size = uid, name, copy, size
        self.worth = worth  # seconds that it saves a byte
        self.original = original  # whose id is the token: no other object may get it
        self.memory = objects.memory_of(original)  # nothing else that was bound before lies in it
