"""What a unit may read and change when it runs now: from its text, and from the values it reads."""

import builtins
import sys

from . import effects, objects
from .objects import ARRAY, FRAME, OPAQUE, kind_of

_SAFE_MODULES = frozenset(
    """numpy pandas math cmath statistics datetime json re collections itertools functools operator decimal
    fractions string textwrap random calendar hashlib base64 pprint urllib os io pathlib time copy
    matplotlib seaborn scb scb_dash streamlit builtins zlib struct unicodedata difflib locale csv
    dataclasses typing types enum numbers glob""".split()
)
_SAFE_BUILTINS = frozenset(dir(builtins)) - frozenset(
    "next iter map filter zip setattr delattr exec eval globals locals vars __import__ compile enumerate "
    "reversed".split()
) | frozenset("zip enumerate reversed map filter iter".split())
_PLOT_ATTRIBUTES = frozenset("plot hist boxplot".split())
_FIGURE_MAKERS = frozenset("figure subplots subplot_mosaic".split())

_safe_attributes = None


def safe_attributes():
    """Names of methods that change nothing on any of the common types that have them."""
    global _safe_attributes
    if _safe_attributes is None:
        known = set(dir(str)) | set(dir(dict)) | set(dir(list)) | set(dir(set)) | set(dir(float)) | set(dir(bytes))
        for module, names in (("pandas", ("DataFrame", "Series", "Index", "Timestamp", "Timedelta", "DatetimeIndex",
                                          "Categorical", "CategoricalIndex", "MultiIndex")), ("numpy", ("ndarray",)),
                              ("datetime", ("datetime", "timedelta", "date")), ("re", ("Pattern", "Match"))):
            for name in names:
                known.update(dir(getattr(sys.modules.get(module), name, None)))
        for module in ("numpy", "pandas", "math", "statistics", "json", "datetime", "itertools", "operator",
                       "pandas.core.groupby", "pandas.core.strings.accessor", "numpy.random"):
            known.update(dir(sys.modules.get(module)))
        grouped = sys.modules.get("pandas.core.groupby")
        for kind in (getattr(grouped, "DataFrameGroupBy", None), getattr(grouped, "SeriesGroupBy", None)):
            known.update(dir(kind))
        strings = sys.modules.get("pandas.core.strings.accessor")
        known.update(dir(getattr(strings, "StringMethods", None)))
        scb = sys.modules.get("scb_dash.api")
        known.update(dir(getattr(scb, "Api", None)))
        _safe_attributes = frozenset(known) - effects.MUTATING - effects.CHANGING_FUNCTIONS
    return _safe_attributes


class Footprint:
    """names: read; reach: what their values reach; look_deep: may frames and arrays be changed by code
    that is not known; sure: objects that will be taken for changed."""

    def __init__(self, unit, namespace, walker, script_names):
        e = unit.effects
        self.unit, self.namespace = unit, namespace
        self.names = set(e.reads)
        if e.words:
            self.names |= e.words & script_names
        self.opaque = e.opaque
        self.codes = []
        self.reach = self._reach(walker, script_names)
        self.function_effects = [effects.of_code(code) for code in self.codes]
        if any(f.opaque for f in self.function_effects):
            self.opaque = True
        if self.opaque:
            self.names |= script_names
            self.reach = self._reach(walker, script_names)
        self.may_bind = set(e.writes).union(*(f.binds for f in self.function_effects))
        self.functions_change = any(
            f.changes or not f.attributes <= safe_attributes() for f in self.function_effects
        )

    def _reach(self, walker, script_names):
        namespace = self.namespace
        reach = walker.walk([namespace[n] for n in self.names if n in namespace])
        done = 0
        while done < len(reach.codes):  # what functions read, where they are called
            new = set()
            for code in reach.codes[done:]:
                self.codes.append(code)
                found = effects.of_code(code)
                new |= found.reads | (found.words & script_names)
            done = len(reach.codes)
            new -= self.names
            self.names |= new
            reach = walker.walk([namespace[n] for n in new if n in namespace], reach)
        return reach

    # ---- what is changed ----

    def judge(self):
        """(objects taken for changed, whether frames and arrays must be looked into)."""
        e, namespace = self.unit.effects, self.namespace
        sure, deep = [], self.functions_change or self.opaque
        for name in e.stores:
            value = namespace.get(name)
            if kind_of(value) in (FRAME, ARRAY, OPAQUE):
                sure.append(value)
            elif value is not None:
                deep = True
        for name in e.maybe:
            deep |= kind_of(namespace.get(name)) != objects.ATOM
        for root, method, inplace in e.methods:
            value = namespace.get(root)
            kind = kind_of(value)
            if kind in (FRAME, ARRAY):
                if inplace or method in effects.FRAME_MUTATING:
                    sure.append(value)
            elif kind not in (objects.ATOM, objects.MODULE, objects.CLASS, objects.FUNCTION, objects.DRAWING):
                deep |= self._holds_data(value)
        for path, names, out in e.arguments:
            values = [namespace[n] for n in names if n in namespace]
            changing = path is not None and path[-1] in effects.CHANGING_FUNCTIONS
            for value in values:
                if changing and kind_of(value) in (FRAME, ARRAY):
                    sure.append(value)
            sure += [namespace[n] for n in out if kind_of(namespace.get(n)) in (FRAME, ARRAY)]
            if values and not self._is_safe(path):
                deep = True
        if e.calls or e.uses or e.stores:
            sure += self.reach.opaque
        return sure, deep

    @staticmethod
    def _holds_data(value):
        """Is it a container in which frames or arrays may lie?"""
        kind = kind_of(value)
        return kind in (objects.MAPPING, objects.SEQUENCE, objects.INSTANCE)

    def _is_safe(self, path):
        """May it be called with frames and arrays without looking at them afterwards?"""
        if path is None:
            return True  # a method of a value that was just made; its name is judged with its root
        value = self.namespace.get(path[0], getattr(builtins, path[0], None))
        if path[0] not in self.namespace:
            return path[0] in _SAFE_BUILTINS
        kind = kind_of(value)
        if kind in (FRAME, ARRAY, objects.ATOM, objects.SEQUENCE, objects.MAPPING, objects.DRAWING):
            return True
        if kind == objects.MODULE:
            return value.__name__.split(".")[0] in _SAFE_MODULES
        if len(path) == 1 and kind in (objects.FUNCTION, objects.CLASS, objects.METHOD):
            own = getattr(value, "__module__", "") or ""
            if own == "__main__":
                return True  # analysed: functions_change
            return own.split(".")[0] in _SAFE_MODULES
        if kind == objects.INSTANCE:
            return type(value).__module__.split(".")[0] in ("__main__", "pandas")
        return False

    # ---- figures ----

    def draws(self):
        """Does it touch pyplot's figures?"""
        if "matplotlib" not in sys.modules:
            return False
        reach, e = self.reach, self.unit.effects
        if reach.drawings or reach.modules & {"matplotlib.pyplot", "seaborn", "pylab"}:
            return True
        attributes = e.attributes.union(*(f.attributes for f in self.function_effects))
        if "pyplot" in attributes:
            return True
        return bool(attributes & _PLOT_ATTRIBUTES) and any(
            kind_of(v) == FRAME for v in reach.objects.values())

    def makes_figure(self):
        return self.unit.effects.new_figure or any(
            f.attributes & _FIGURE_MAKERS for f in self.function_effects)
