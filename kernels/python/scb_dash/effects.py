"""What code may do, read from its text and its bytecode: names read and bound, objects that it may
change in place, files, random numbers.

Everything here errs to one side: what is not known to leave an object alone may change it. What then
really happened is looked at when it has run (engine.py).
"""

import ast
import builtins
import dis
import re

# Methods that change their receiver, whatever its type.
MUTATING = frozenset(
    """add append appendleft add_category byteswap clear close commit compute cursor
    difference_update discard drain execute executemany executescript extend extendleft fetchall
    fetchmany fetchone fill fit fit_transform flush insert intersection_update itemset move_to_end
    partial_fit partition pop popitem popleft put read readline readlines remove resize reverse
    rotate seek send set_params setdefault setfield setflags sort subtract
    symmetric_difference_update throw truncate update write writelines __setitem__ __delitem__
    __setattr__ __iadd__ __next__""".split()
)
# Of these, what frames and arrays have and do not change themselves by.
FRAME_MUTATING = frozenset(
    """byteswap fill insert itemset partition pop put resize setfield setflags sort update
    __setitem__ __delitem__ __setattr__ __iadd__ set_flags""".split()
)
# Functions that change an argument.
CHANGING_FUNCTIONS = frozenset(
    """shuffle heappush heappop heapify heapreplace heappushpop insort insort_left insort_right
    put place putmask copyto fill_diagonal setattr delattr next setitem delitem iadd isub imul
    iconcat itruediv put_along_axis at exec eval nan_to_num readinto""".split()
)
_QUERIES = frozenset(
    """query eval sql execute read_sql read_sql_query sqldf where filter
    system getoutput run_line_magic run_cell_magic""".split()  # of IPython
)
_OPAQUE = frozenset("exec eval globals locals vars __import__ compile".split())
_READ_FILES = re.compile(r"^(read_\w+|load|loadtxt|genfromtxt|fromfile|imread|open|listdir|glob|"
                         r"rglob|iterdir|exists|stat|getsize|walk|scandir|is_file|read_text|"
                         r"read_bytes|connect)$")
_WRITE_FILES = re.compile(r"^(to_(csv|excel|parquet|pickle|json|feather|hdf|sql|html|stata|xml|"
                          r"latex|markdown)|save|savez|savez_compressed|savetxt|tofile|imsave|"
                          r"savefig|write_text|write_bytes|unlink|rename|replace|mkdir|makedirs|"
                          r"rmtree|copy|copyfile|move|touch|remove|rmdir|dump|open|export)$")
_SETTERS = frozenset(
    """set_option reset_option seterr set_printoptions filterwarnings simplefilter set_theme
    set_style set_context set_palette rc setlocale setrecursionlimit getcontext setcontext
    register_matplotlib_converters""".split()
)
_NAME = re.compile(r"[A-Za-z_]\w*")


class Effects:
    """Of one unit. Names are those of the kernel's namespace."""

    def __init__(self):
        self.reads = set()
        self.writes = set()
        self.stores = set()  # roots of `x[…] = `, `x.a = `, `del x[…]`, `x += …`
        self.maybe = set()  # the same by way of a local alias
        self.methods = []  # (root, method, inplace)
        self.arguments = []  # (callee as a dotted path or None, roots of the arguments, out roots)
        self.uses = set()  # names that are more than handed on
        self.attributes = set()  # every attribute's name in it
        self.words = set()  # words inside strings given to query(), eval(), sql() …
        self.sets_modules = set()  # roots of settings: pd.set_option, plt.rcParams
        self.opaque = False
        self.reads_files = self.writes_files = False
        self.new_figure = False
        self.calls = False


def _names(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def dotted(node):
    """("np", "random", "shuffle") of an expression of that kind; None of others."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return (node.id, *reversed(parts))


class _Visitor(ast.NodeVisitor):
    def __init__(self, effects):
        self.e = effects
        self.aliases = []  # (target names, source names)

    def _target(self, target, value):
        for node in ast.walk(target):
            if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(
                node.ctx, (ast.Store, ast.Del)
            ):
                self.e.stores |= _names(node.value)
                path = dotted(node.value)
                if path is not None:
                    self.e.sets_modules.add(path[0])
        names = {
            n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        if names and value is not None:
            self.aliases.append((names, _names(value)))

    def visit_Assign(self, node):
        for target in node.targets:
            self._target(target, node.value)
        if not isinstance(node.value, (ast.Name, ast.Tuple, ast.List)):
            self.e.uses |= _names(node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node):
        self._target(node.target, node.value)
        self.generic_visit(node)

    def visit_NamedExpr(self, node):
        self._target(node.target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        self._target(node.target, node.value)
        if isinstance(node.target, ast.Name):
            self.e.stores.add(node.target.id)
        self.generic_visit(node)

    def visit_Delete(self, node):
        for target in node.targets:
            self._target(target, None)
        self.generic_visit(node)

    def visit_For(self, node):
        self._target(node.target, node.iter)
        self.e.uses |= _names(node.iter)
        self.generic_visit(node)

    visit_AsyncFor = visit_For

    def visit_With(self, node):
        for item in node.items:
            if item.optional_vars is not None:
                self._target(item.optional_vars, item.context_expr)
            self.e.uses |= _names(item.context_expr)
        self.generic_visit(node)

    visit_AsyncWith = visit_With

    def visit_comprehension(self, node):
        self._target(node.target, node.iter)
        self.e.uses |= _names(node.iter)
        self.generic_visit(node)

    def visit_Attribute(self, node):
        self.e.attributes.add(node.attr)
        self.e.uses |= _names(node.value)
        self.generic_visit(node)

    def visit_Subscript(self, node):
        self.e.uses |= _names(node.value)
        self.generic_visit(node)

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name in ("threading", "concurrent.futures", "multiprocessing"):
                self.e.opaque = True

    def visit_ImportFrom(self, node):
        if any(alias.name == "*" for alias in node.names):
            self.e.opaque = True

    def visit_FunctionDef(self, node):
        """Its body runs when it is called, and is judged then (of_code); not here."""
        for part in (*node.decorator_list, node.args):
            self.visit(part)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
        self.visit(node.args)
        self.e.uses |= _names(node.body)

    def visit_Call(self, node):
        e, func = self.e, node.func
        e.calls = True
        path = dotted(func)
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", None)
        passed, out = set(), set()
        inplace = False
        for argument in node.args:
            passed |= _names(argument)
            self._query(name, argument)
        for keyword in node.keywords:
            names = _names(keyword.value)
            passed |= names
            if keyword.arg == "inplace":
                inplace = not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                )
            elif keyword.arg in ("out", "copy") or keyword.arg is None:
                out |= names
        if isinstance(func, ast.Attribute):
            for root in _names(func.value):
                e.methods.append((root, func.attr, inplace))
        e.arguments.append((path, passed, out))
        e.uses |= passed
        self._known(name, path, node)
        self.generic_visit(node)

    def _query(self, name, argument):
        """Names in a text that is itself code."""
        if name in _QUERIES:
            for part in ast.walk(argument):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    self.e.words |= set(_NAME.findall(part.value))

    def _known(self, name, path, node):
        e = self.e
        if name is None:
            return
        if path is not None and len(path) == 1 and name in _OPAQUE:
            e.opaque = True
        if name == "open":
            writes = _mode(node)
            e.reads_files |= not writes or writes == "+"
            e.writes_files |= bool(writes)
        else:
            e.reads_files |= bool(_READ_FILES.match(name))
            is_method = path is None or len(path) > 1
            e.writes_files |= is_method and bool(_WRITE_FILES.match(name)) and _to_a_file(name, node)
        if name in _SETTERS and path is not None:
            e.sets_modules.add(path[0])
        if path is not None and len(path) > 2 and name in MUTATING:  # os.environ.update()
            e.sets_modules.add(path[0])
        if name in ("setattr", "delattr") and node.args and (of := dotted(node.args[0])) is not None:
            e.sets_modules.add(of[0])
        if path is not None and "rcParams" in path:
            e.sets_modules.add(path[0])
        if name in ("figure", "subplots", "subplot_mosaic") and path is not None and not any(
            keyword.arg == "num" for keyword in node.keywords
        ):
            e.new_figure |= name != "figure" or not node.args


def _to_a_file(name, node):
    """df.replace(), df.copy() and df.rename() are no files' business."""
    if name in ("copy", "replace", "rename", "remove", "dump", "move", "load"):
        return name in ("remove", "move") and bool(node.args) or (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in ("os", "shutil", "json", "pickle", "joblib", "yaml")
        )
    return True


def _mode(node):
    """"" for reading, "w" for writing, "+" for both."""
    mode = node.args[1] if len(node.args) > 1 else None
    for keyword in node.keywords:
        if keyword.arg == "mode":
            mode = keyword.value
    if isinstance(node.func, ast.Attribute) and node.args:
        mode = mode or node.args[0]
    if mode is None:
        return ""
    if not isinstance(mode, ast.Constant) or not isinstance(mode.value, str):
        return "+"
    if "+" in mode.value:
        return "+"
    return "w" if set(mode.value) & set("wax") else ""


def code_names(code):
    """(read, bound): the names of the namespace in a code object and in those nested in it. Bodies
    of functions only read when they are called, so what they bind is not counted."""
    reads, writes = set(), set()
    for instruction in dis.get_instructions(code):
        op = instruction.opname
        if op in ("LOAD_NAME", "LOAD_GLOBAL", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS"):
            reads.add(instruction.argval)
        elif op in ("STORE_NAME", "STORE_GLOBAL", "DELETE_NAME", "DELETE_GLOBAL"):
            writes.add(instruction.argval)
    return reads, writes


def _nested(code):
    return [const for const in code.co_consts if hasattr(const, "co_code")]


# Code that runs where it stands, within the statement that holds it.
_RUNS_IN_PLACE = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"))


def _collect(code, e, top):
    reads, writes = code_names(code)
    if top:
        e.writes |= writes
    e.reads |= reads
    for inner in _nested(code):
        if inner.co_name in _RUNS_IN_PLACE:
            _collect(inner, e, False)
        elif top and not inner.co_flags & 0x2:  # a class: its body runs now
            _collect_class(inner, e)


def _collect_class(code, e):
    """A class body binds its own names; it reads the namespace's."""
    reads, own = code_names(code)
    e.reads |= reads - own
    for inner in _nested(code):
        if inner.co_name in _RUNS_IN_PLACE:
            _collect(inner, e, False)


def of_unit(tree, code):
    """The effects of a top-level statement."""
    e = Effects()
    _collect(code, e, True)
    visitor = _Visitor(e)
    visitor.visit(tree)
    touched = e.stores | {root for root, _, _ in e.methods}
    grew = True
    while grew:  # what is done to a local alias may be done to what it is taken from
        grew = False
        for names, sources in visitor.aliases:
            if names & (touched | e.maybe) and not sources <= e.maybe:
                e.maybe |= sources
                grew = True
    if not isinstance(tree, (ast.For, ast.While, ast.If, ast.Try, ast.With)):
        e.maybe = set() if not _has_comprehension(tree) else e.maybe
    if e.reads & _OPAQUE and not e.opaque:
        e.opaque = any(name in _OPAQUE for name in e.reads)
    return e


def _has_comprehension(tree):
    return any(isinstance(node, (ast.comprehension, ast.NamedExpr)) for node in ast.walk(tree))


class CodeEffects:
    """Of the code of a function, wherever it was defined."""

    __slots__ = ("reads", "binds", "changes", "rebinds_closure", "attributes", "opaque", "words")


_of_code = {}


def of_code(code):
    """What a function's body reads of its globals, binds in them, and may change. Cached."""
    known = _of_code.get(code)
    if known is not None:
        return known
    e = CodeEffects()
    e.reads, e.binds, e.attributes, e.words = set(), set(), set(), set()
    e.changes = e.rebinds_closure = e.opaque = False
    _scan(code, e)
    e.changes |= bool(e.attributes & MUTATING) or bool(e.reads & CHANGING_FUNCTIONS)
    e.changes |= bool(e.attributes & CHANGING_FUNCTIONS)
    e.opaque = bool(e.reads & _OPAQUE and e.reads & _OPAQUE - {"compile", "__import__"})
    if len(_of_code) > 10000:
        _of_code.clear()
    _of_code[code] = e
    return e


_CHANGING_OPS = frozenset("STORE_SUBSCR STORE_ATTR DELETE_SUBSCR DELETE_ATTR STORE_SLICE".split())


def _scan(code, e):
    free = set(code.co_freevars)
    for instruction in dis.get_instructions(code):
        op = instruction.opname
        if op in ("LOAD_GLOBAL", "LOAD_NAME"):
            e.reads.add(instruction.argval)
        elif op in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            e.binds.add(instruction.argval)
        elif op in _CHANGING_OPS or op.startswith("INPLACE_"):
            e.changes = True
        elif op == "BINARY_OP" and instruction.argrepr.endswith("="):
            e.changes = True
        elif op == "STORE_DEREF" and instruction.argval in free:
            e.changes = e.rebinds_closure = True
        elif op in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            e.attributes.add(instruction.argval)
        elif op in ("IMPORT_NAME",):
            pass
    for const in code.co_consts:
        if hasattr(const, "co_code"):
            _scan(const, e)
        elif isinstance(const, str) and len(const) < 4096:
            if "@" in const or " from " in const.lower():
                e.words |= set(_NAME.findall(const))
        elif isinstance(const, tuple) and ("inplace" in const or "out" in const):
            e.changes = True


BUILTIN_NAMES = frozenset(dir(builtins))
