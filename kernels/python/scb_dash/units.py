"""Cutting a script into units: one a top-level statement, each compiled with its real line numbers.

Three things are opened, because that is how people write them: blocks of `with` on a container of
`scb`, `if __name__ == "__main__":`, and a single trailing call of an argumentless main().
"""

import ast
import hashlib
import linecache
import re

from . import effects

EFFECTS_MAX = 4000  # statements whose effects are kept for when their script is edited
_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
# Functions of scb whose value is a container, or several.
_CONTAINERS = frozenset(
    "columns tabs expander container sidebar form empty spinner status popover".split()
)
_MODULES = frozenset(("scb", "st", "streamlit"))
# Lines as Python counts them, with their ends.
_LINES = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")


_known = {}  # key: Effects, which the text alone decides


def _effects(key, tree, code):
    found = _known.get(key)
    if found is None:
        if len(_known) >= EFFECTS_MAX:
            _known.clear()
        found = _known[key] = effects.of_unit(tree, code)
    return found


class Unit:
    """A statement: its code, its place, and what its text says of its effects."""

    def __init__(self, tree, text, line, blocks, filename, shows, head=None):
        self.uid = None  # stable over edits; the tree's ids begin with it
        self.tree = tree
        self.text = text
        self.line = line
        self.blocks = blocks  # hidden names of the containers around it
        self._head = head
        self.shows = shows  # its value is shown: the last expression
        if shows:
            self.code = compile(ast.Expression(tree.value), filename, "eval", _FLAGS, True)
        else:
            module = ast.Module([tree], [])
            self.code = compile(module, filename, "exec", _FLAGS, True)
        key = "\0".join((text, *blocks, str(shows)))
        self.key = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
        self.effects = _effects(self.key, tree, self.code)

    def head(self):
        """Its first line, cut: for people."""
        line = (self._head or self.text).strip().split("\n", 1)[0]
        return line if len(line) <= 72 else line[:71] + "…"


class Script:
    """The units of a source, in order."""

    def __init__(self, source, filename):
        self.source = source
        self.filename = filename
        lines = [line + "\n" for line in source.split("\n")]
        linecache.cache[filename] = (len(source), None, lines, filename)
        tree = compile(source, filename, "exec", _FLAGS | ast.PyCF_ONLY_AST, True)
        self._containers = _container_names(tree)
        self._lines = [line.encode("utf-8", "replace") for line in _LINES.findall(source)]
        self.units = []
        self._hidden = 0
        body = _open_main(tree.body)
        for statement in body:
            self._add(statement, (), statement is body[-1])
        self.names = frozenset().union(*(u.effects.writes for u in self.units))

    def _add(self, statement, blocks, is_last):
        opened = self._block(statement)
        if opened is None:
            if _is_main_guard(statement):
                for inner in statement.body:
                    self._add(inner, blocks, is_last and inner is statement.body[-1])
                return
            shows = is_last and isinstance(statement, ast.Expr) and not self._silenced(statement)
            text, own = self._text(statement)
            self.units.append(
                Unit(statement, text, statement.lineno, blocks, self.filename, shows, own)
            )
            return
        for item in opened:
            blocks = self._enter(item, statement, blocks)
        for inner in statement.body:
            self._add(inner, blocks, is_last and inner is statement.body[-1])

    def _silenced(self, last):
        """Does a `;` follow the last statement? Nothing but blanks and comments can stand there beside it."""
        rest = [self._lines[last.end_lineno - 1][last.end_col_offset :], *self._lines[last.end_lineno :]]
        return any(b";" in line.partition(b"#")[0] for line in rest)

    def _text(self, statement):
        """(with its decorators, without them). ast.get_source_segment() splits the source each time."""
        first, last = statement.lineno - 1, statement.end_lineno
        lines = self._lines[first:last]
        if not lines:
            text = ast.unparse(statement)
            return text, text
        lines[-1] = lines[-1][: statement.end_col_offset]
        lines[0] = lines[0][statement.col_offset :]
        text = b"".join(lines).decode("utf-8", "replace")
        decorators = getattr(statement, "decorator_list", None)
        if not decorators:
            return text, text
        above = self._lines[decorators[0].lineno - 1 : first]
        return b"".join(above).decode("utf-8", "replace") + text, text

    def _enter(self, item, statement, blocks):
        """A unit that makes the container once; those of the body are run inside it."""
        self._hidden += 1
        name = f"__scb_block_{self._hidden}"
        targets = [ast.Name(name, ast.Store())]
        if item.optional_vars is not None:
            targets.append(item.optional_vars)
        made = ast.Assign(targets, item.context_expr, lineno=statement.lineno, col_offset=0)
        ast.copy_location(targets[0], item.context_expr)
        made.end_lineno = item.context_expr.end_lineno
        made.end_col_offset = item.context_expr.end_col_offset
        text = ast.unparse(made)
        head = f"with {ast.unparse(item)}:"
        self.units.append(
            Unit(ast.fix_missing_locations(made), text, statement.lineno, blocks, self.filename, False, head)
        )
        return blocks + (name,)

    def _block(self, statement):
        """The items of a `with` that are all containers of scb; None where it is no such block."""
        if not isinstance(statement, ast.With):
            return None
        if all(
            self._is_container(item.context_expr)
            and (item.optional_vars is None or isinstance(item.optional_vars, ast.Name))
            for item in statement.items
        ):
            return statement.items
        return None

    def _is_container(self, node):
        return _makes_container(node) or _root(node) in self._containers


def _root(node):
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _makes_container(node):
    """st.columns(…), scb.sidebar, st.sidebar.expander(…)[0]"""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        node = node.func
    named = isinstance(node, ast.Attribute) and node.attr in _CONTAINERS
    while isinstance(node, ast.Attribute):
        node = node.value
    return named and isinstance(node, ast.Name) and node.id in _MODULES


def _statements(node):
    """All statements in a node, those in others too."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, field, ())
        for one in inner if isinstance(inner, list) else ():
            yield one
            yield from _statements(one)


def _container_names(tree):
    """Names that are only ever bound to containers of scb."""
    found, others = set(), set()
    for node in _statements(tree):
        if isinstance(node, ast.Assign):
            made = _makes_container(node.value) or (
                isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Attribute)
                and node.value.func.attr in _CONTAINERS
                and _root(node.value.func) in found
            )
            for target in node.targets:
                names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
                (found if made else others).update(names)
    return found - others


def _is_main_guard(statement):
    return (
        isinstance(statement, ast.If)
        and not statement.orelse
        and isinstance(statement.test, ast.Compare)
        and ast.unparse(statement.test).replace('"', "'") == "__name__ == '__main__'"
    )


def _local_names(function):
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node is not function:
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((a.asname or a.name).split(".")[0] for a in node.names)
    return names


def _open_main(body):
    """The statements with a trailing main() replaced by its body, where that means the same."""
    statements = list(body)
    if statements and _is_main_guard(statements[-1]):
        statements[-1:] = statements[-1].body
    if not statements:
        return statements
    call = statements[-1]
    if not (
        isinstance(call, ast.Expr)
        and isinstance(call.value, ast.Call)
        and isinstance(call.value.func, ast.Name)
        and not call.value.args
        and not call.value.keywords
    ):
        return statements
    name = call.value.func.id
    defined = [s for s in statements if isinstance(s, ast.FunctionDef) and s.name == name]
    if len(defined) != 1 or not _may_open(defined[0], statements, name):
        return statements
    inner = defined[0].body
    if isinstance(inner[0], ast.Expr) and isinstance(inner[0].value, ast.Constant):
        inner = inner[1:]  # its documentation
    if not inner:
        return statements
    return [s for s in statements[:-1] if s is not defined[0]] + inner


def _may_open(function, statements, name):
    arguments = function.args
    if arguments.args or arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
        return False
    if function.decorator_list:
        return False
    for node in ast.walk(function):
        if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal)):
            if not isinstance(node, ast.Return) or _own_return(function, node):
                return False
    local, uses = _local_names(function), 0
    for statement in statements:
        if statement is function:
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                if node.id == name:
                    uses += 1
                elif node.id in local:
                    return False
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in local:
                return False
            elif isinstance(node, (ast.Import, ast.ImportFrom)) and any(
                (a.asname or a.name).split(".")[0] in local for a in node.names
            ):
                return False
    return uses == 1


def _own_return(function, node):
    """Is this `return` the function's own, not that of one defined in it?"""
    for inner in ast.walk(function):
        if inner is not function and isinstance(inner, (ast.FunctionDef, ast.Lambda)):
            if any(node is other for other in ast.walk(inner)):
                return False
    return True


