"""What can be reached from a value, and what it looks like now.

Ids stand for objects that can change: two values share one where a change of the one may show in the
other. A frame's ids are its own and those of the memory that its columns lie in.
"""

import collections
import datetime
import decimal
import fractions
import functools
import gc
import operator
import re
import sys
import types
import uuid
import zlib

from . import frames, nodes

REACH_MAX = 10_000
ATOMS = frozenset((
    int, float, complex, str, bytes, bool, type(None), type(Ellipsis), type(NotImplemented), range, slice,
    datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, decimal.Decimal,
    fractions.Fraction, uuid.UUID, re.Pattern, types.BuiltinFunctionType, types.CodeType, property,
    types.MappingProxyType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.MethodWrapperType, operator.itemgetter, operator.attrgetter, operator.methodcaller,
))
_SEQUENCES = (list, tuple, set, frozenset, collections.deque)
(ATOM, SEQUENCE, MAPPING, FUNCTION, CLASS, METHOD, MODULE, ARRAY, FRAME, DRAWING, INSTANCE, OPAQUE) = range(12)
_HEAP_TYPE = 1 << 9
ANYTHING = "anything"  # the walk was not complete: whatever is mutable may be in it

_kinds = {}


def kind_of(value):
    kind = type(value)
    found = _kinds.get(kind)
    if found is None:
        found = _kinds[kind] = _kind_of_type(kind)
    return found


def _kind_of_type(kind):
    top = (kind.__module__ or "").split(".")[0]
    if kind in ATOMS:
        return ATOM
    if issubclass(kind, type):
        return CLASS
    if issubclass(kind, types.ModuleType):
        return MODULE
    if issubclass(kind, types.FunctionType):
        return FUNCTION
    if issubclass(kind, types.MethodType):
        return METHOD
    if issubclass(kind, _SEQUENCES):
        return SEQUENCE
    if issubclass(kind, dict):
        return MAPPING
    if top == "numpy":
        return _numpy_kind(kind)
    if top == "pandas":
        return _pandas_kind(kind)
    if top in ("matplotlib", "seaborn", "mpl_toolkits"):
        return DRAWING
    if top in ("scb_dash", "scb_kernel", "IPython", "pathlib", "zoneinfo"):
        return ATOM
    if hasattr(kind, "__members__") or kind.__name__ in ("frozenset", "ZoneInfo"):
        return ATOM
    if hasattr(kind, "__next__"):
        return OPAQUE
    if kind.__flags__ & _HEAP_TYPE and (hasattr(kind, "__dict__") or hasattr(kind, "__slots__")):
        return INSTANCE
    return OPAQUE


def _numpy_kind(kind):
    numpy = sys.modules["numpy"]
    if issubclass(kind, numpy.ndarray):
        return ARRAY
    if issubclass(kind, (numpy.generic, numpy.dtype, numpy.ufunc)):
        return ATOM
    return OPAQUE


def _pandas_kind(kind):
    pandas = sys.modules["pandas"]
    if issubclass(kind, (pandas.DataFrame, pandas.Series)):
        return FRAME
    if issubclass(kind, pandas.Index):
        return ATOM
    if kind.__name__ in ("Timestamp", "Timedelta", "Period", "Interval", "NAType", "NaTType", "DateOffset") or (
        "offsets" in kind.__module__ or kind.__name__.endswith("Dtype")
    ):
        return ATOM
    return INSTANCE


class Reach:
    """What values reach: ids, the script's code among them, modules, and what cannot be looked into."""

    __slots__ = ("ids", "codes", "modules", "opaque", "objects", "names", "drawings", "_todo")

    def __init__(self):
        self.ids = set()
        self.codes = []
        self.modules = set()
        self.opaque = []
        self.objects = {}  # id: what can be looked at (observe)
        self.names = set()
        self.drawings = False


class Walker:
    """Walks from values. namespace is the script's: functions of it are read into, others are not."""

    def __init__(self, namespace, token):
        self.namespace = namespace
        self._token = token  # of copies that stand for the object they were made from

    def walk(self, values, into=None):
        reach = into or Reach()
        todo = list(values)
        seen = reach.ids
        while todo:
            value = todo.pop()
            kind = kind_of(value)
            if kind == ATOM:
                self._bound(value, todo)
                continue
            key = id(value)
            if key in reach.objects:
                continue
            if len(reach.objects) > REACH_MAX:
                seen.add(ANYTHING)
                break
            reach.objects[key] = value
            self._visit(kind, value, key, reach, todo)
        return reach

    @staticmethod
    def _bound(value, todo):
        """`append = rows.append` holds the list."""
        if type(value) is types.BuiltinFunctionType:
            owner = value.__self__
            if owner is not None and type(owner) is not types.ModuleType:
                todo.append(owner)

    def _visit(self, kind, value, key, reach, todo):
        if kind == SEQUENCE:
            if type(value) is not tuple and type(value) is not frozenset:
                reach.ids.add(key)
            if not ATOMS.issuperset(set(map(type, value))):
                todo.extend(v for v in value if type(v) not in ATOMS)
        elif kind == MAPPING:
            reach.ids.add(key)
            todo.extend(v for v in value.values() if type(v) not in ATOMS)
            todo.extend(v for v in value if type(v) not in ATOMS)
            if getattr(value, "default_factory", None) is not None:
                todo.append(value.default_factory)
        elif kind == FRAME:
            reach.ids.add(self._token(value))
            reach.ids.update(buffers_of(value))
        elif kind == ARRAY:
            reach.ids.add(self._token(value))
            reach.ids.add(owner_of(value))
        elif kind == FUNCTION:
            self._function(value, key, reach, todo)
        elif kind == METHOD:
            todo += (value.__self__, value.__func__)
        elif kind == MODULE:
            reach.modules.add(value.__name__)
        elif kind == CLASS:
            self._class(value, key, reach, todo)
        elif kind == DRAWING:
            reach.drawings = True
        elif kind == INSTANCE:
            reach.ids.add(key)
            todo += gc.get_referents(value)
        else:
            reach.ids.add(self._token(value))
            reach.opaque.append(value)
            if not isinstance(value, types.GeneratorType):
                todo += [v for v in gc.get_referents(value) if kind_of(v) != MODULE]
            else:
                todo += list(value.gi_frame.f_locals.values()) if value.gi_frame else []
                reach.codes.append(value.gi_code)

    def _function(self, value, key, reach, todo):
        cells = value.__closure__ or ()
        own = value.__globals__ is self.namespace
        if own:
            reach.ids.add(key)
            reach.codes.append(value.__code__)
        for cell in cells:
            try:
                todo.append(cell.cell_contents)
            except ValueError:
                pass  # not bound yet
            if own:
                reach.ids.add(id(cell))
        if own or cells or value.__dict__:
            todo += value.__defaults__ or ()
            todo += (value.__kwdefaults__ or {}).values()
            todo += value.__dict__.values()

    def _class(self, value, key, reach, todo):
        if value.__module__ != "__main__":
            return
        reach.ids.add(key)
        for name, member in vars(value).items():
            if isinstance(member, (staticmethod, classmethod)):
                member = member.__func__
            elif isinstance(member, property):
                todo += [f for f in (member.fget, member.fset) if f is not None]
            elif isinstance(member, functools.cached_property):
                member = member.func
            if name not in ("__dict__", "__weakref__", "__doc__", "__module__"):
                todo.append(member)
        todo += value.__bases__


# ---- memory ----


def owner_of(array):
    """The id of what owns an array's memory."""
    base = array.base
    while base is not None:
        array = base
        base = array.base if frames.is_array(array) else None
    return id(array)


def _arrays_of(block):
    """numpy arrays of a column's or block's values."""
    if frames.is_array(block):
        yield block
        return
    for name in ("_ndarray", "_data", "_mask", "_codes", "_pa_array", "_sparse_values", "_left", "_right"):
        part = getattr(block, name, None)
        if frames.is_array(part):
            yield part
        elif part is not None and part is not block and hasattr(part, "_ndarray"):
            yield part._ndarray


def buffers_of(frame):
    manager = getattr(frame, "_mgr", None)
    return {owner_of(array) for block in getattr(manager, "arrays", ()) for array in _arrays_of(block)}


def memory_of(value):
    """Ids of the memory that a frame or an array lies in; none of others."""
    return {owner_of(value)} if kind_of(value) == ARRAY else buffers_of(value)


def size_of(value):
    """Bytes of a frame or an array."""
    if frames.is_array(value):
        return value.nbytes
    try:
        usage = value.memory_usage(index=False)
        return int(usage.sum() if hasattr(usage, "sum") else usage)
    except Exception:
        return 1 << 40


# ---- looks ----


class Look:
    """What an object looks like, so far as it can be seen: compared before and after a unit."""

    __slots__ = ("objects", "looks")

    def __init__(self, objects, deep):
        """objects: {id: object}. deep: frames and arrays are looked into, not only containers."""
        self.objects = objects
        self.looks = {key: _look(value, deep) for key, value in objects.items()}

    def changed(self, deep):
        """Those that look different now."""
        return [
            value for key, value in self.objects.items() if not _same(self.looks[key], _look(value, deep))
        ]


def _same(a, b):
    if type(a) is list:
        return type(b) is list and len(a) == len(b) and all(map(operator.is_, a, b))
    return a == b


def _look(value, deep):
    kind = kind_of(value)
    if kind == SEQUENCE:
        return None if type(value) in (tuple, frozenset) else list(value)
    if kind == MAPPING:
        return [*value.keys(), *value.values()]
    if kind == FUNCTION:
        looks = [*(value.__defaults__ or ()), *value.__dict__.values(), value.__code__]
        for cell in value.__closure__ or ():
            try:
                looks.append(cell.cell_contents)
            except ValueError:
                looks.append(None)
        return looks
    if kind == CLASS:
        return list(vars(value).values()) if value.__module__ == "__main__" else None
    if kind == INSTANCE:
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict):
            return [*own.keys(), *own.values()]
        return [v for v in gc.get_referents(value) if not isinstance(v, type)]
    if kind == ARRAY and deep:
        return value.shape, value.dtype, _checksum(value)
    if kind == FRAME and deep:
        return _frame_look(value)
    return None


def _checksum(array):
    numpy = sys.modules["numpy"]
    if array.dtype.hasobject:
        array = numpy.ascontiguousarray(array)
        import ctypes

        return zlib.adler32(ctypes.string_at(array.ctypes.data, array.nbytes))
    return zlib.adler32(numpy.ascontiguousarray(array).reshape(-1).view("u1")) if array.size else 0


def _frame_look(value):
    """By column, since pandas joins blocks when a frame is only read."""
    series = [value] if frames.is_series(value) else [value.iloc[:, i] for i in range(value.shape[1])]
    names = [value.name] if frames.is_series(value) else value.columns
    parts = []
    for one in series:
        sums = [_checksum(a) for a in _arrays_of(one._mgr.arrays[0])]
        parts.append((str(one.dtype), tuple(sums)))
    return repr(list(names)), _index_look(value.index), tuple(parts), repr(value.attrs) if value.attrs else ""


def _index_look(index):
    if type(index).__name__ == "RangeIndex":
        return index.start, index.stop, index.step, repr(index.name)
    return id(index), repr(index.names)


# ---- equality ----

_PLAIN = (int, float, complex, str, bytes, bool, type(None), datetime.date, datetime.datetime, datetime.time,
          datetime.timedelta, decimal.Decimal, range, slice)


def same_value(a, b):
    """Cheap and sure: the same object, or two equal ones that nothing can tell apart."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind in _PLAIN:
        return a == b and repr(a) == repr(b) if kind in (float, complex, int) else a == b
    if kind is tuple:
        return len(a) == len(b) <= 64 and all(map(same_value, a, b))
    if kind in (nodes.Container, nodes.Element):
        return a == b
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(a, numpy.generic) and kind_of(a) == ATOM:
        return a.tobytes() == b.tobytes()
    if kind.__module__.startswith("pandas._libs") and kind.__name__ in ("Timestamp", "Timedelta"):
        return a == b and str(a) == str(b)
    return False
