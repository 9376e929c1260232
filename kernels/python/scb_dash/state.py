"""session_state: what a script keeps between its runs. Each key is a location that replay follows."""

_MISSING = object()


class Watch:
    """What one unit did with it: the keys it read before writing them, and what it wrote."""

    def __init__(self):
        self.reads = set()
        self.writes = set()


class SessionState:
    def __init__(self):
        self._values = {}
        self._watch = Watch()

    # ---- the engine's side ----

    def _begin(self):
        self._watch = Watch()
        return self._watch

    def _peek(self, key, default=None):
        return self._values.get(key, default)

    # ---- the script's side ----

    def _read(self, key):
        if key not in self._watch.writes:
            self._watch.reads.add(key)

    def _write(self, key):
        self._watch.writes.add(key)

    def __getitem__(self, key):
        self._read(key)
        try:
            return self._values[key]
        except KeyError:
            raise KeyError(
                f"session_state has no {key!r} yet. Begin with: if {key!r} not in "
                f"scb.session_state: scb.session_state[{key!r}] = …"
            ) from None

    def __setitem__(self, key, value):
        self._write(key)
        self._values[key] = value

    def __delitem__(self, key):
        self._read(key)
        self._write(key)
        del self._values[key]

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __setattr__(self, name, value):
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def __delattr__(self, name):
        del self[name]

    def __contains__(self, key):
        self._read(key)
        return key in self._values

    def __iter__(self):
        self._all()
        return iter(list(self._values))

    def __len__(self):
        self._all()
        return len(self._values)

    def _all(self):
        for key in self._values:
            self._read(key)

    def keys(self):
        return list(self)

    def values(self):
        return [self[key] for key in self]

    def items(self):
        return [(key, self[key]) for key in self]

    def get(self, key, default=None):
        return self[key] if key in self else default

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key, *default):
        if key not in self and default:
            return default[0]
        value = self[key]
        del self[key]
        return value

    def update(self, other=(), **more):
        for key, value in dict(other, **more).items():
            self[key] = value

    def clear(self):
        for key in list(self):
            del self[key]

    def to_dict(self):
        return dict(self.items())

    def __repr__(self):
        return repr(self._values)
