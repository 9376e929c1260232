"""cache_data and cache_resource: results that outlive events and edits."""

import copy
import functools
import hashlib
import pickle

from . import frames

ENTRIES_MAX = 200


class Caches:
    """Of one kernel. A function's entries are those of its code: the same text finds them again."""

    def __init__(self):
        self._entries = {}

    def clear(self, identity=None):
        """Forgets a function's entries, or all."""
        for key in [key for key in self._entries if identity is None or key[0] == identity]:
            del self._entries[key]

    def wrap(self, function, copies):
        code = getattr(function, "__code__", None)
        identity = function.__qualname__, None if code is None else _code_key(code)

        @functools.wraps(function)
        def cached(*args, **kwargs):
            key = _key(identity, args, kwargs)
            if key is None:
                return function(*args, **kwargs)
            if key not in self._entries:
                value = function(*args, **kwargs)
                while len(self._entries) >= ENTRIES_MAX:
                    del self._entries[next(iter(self._entries))]
                self._entries[key] = _copy(value) if copies else value
                return value
            value = self._entries[key]
            return _copy(value) if copies else value

        cached.clear = lambda: self.clear(identity)
        cached.scb_cached = "data" if copies else "resource"
        return cached


def _code_key(code):
    """Equal for functions of equal text, wherever they stand."""
    parts = [code.co_code, repr(code.co_names).encode(), repr(code.co_varnames).encode()]
    for const in code.co_consts:
        parts.append(_code_key(const) if hasattr(const, "co_code") else repr(const).encode())
    return hashlib.sha256(b"\0".join(parts)).digest()


def _key(identity, args, kwargs):
    parts = [identity]
    for name, value in [*enumerate(args), *sorted(kwargs.items())]:
        if isinstance(name, str) and name.startswith("_"):
            continue  # as Streamlit has it
        part = _of_argument(value)
        if part is None:
            return None
        parts.append((name, part))
    return tuple(parts)


def _of_argument(value):
    try:
        hash(value)
        if not callable(value):
            return type(value), value
    except TypeError:
        pass
    if frames.is_frame(value) or frames.is_series(value):
        import pandas

        hashes = pandas.util.hash_pandas_object(value)
        return hashlib.sha256(hashes.to_numpy().tobytes() + repr(
            getattr(value, "columns", None)).encode()).digest()
    try:
        return hashlib.sha256(pickle.dumps(value)).digest()
    except Exception:
        return None


def _copy(value):
    if frames.is_frame(value) or frames.is_series(value):
        return value.copy()
    try:
        return copy.deepcopy(value)
    except Exception:
        return value
