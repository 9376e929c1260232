"""Importing what the kernel itself needs, once code may have put files beside it."""

import contextlib
import os
import sys

_stdlib = getattr(sys, "stdlib_module_names", frozenset())  # Python 3.10


def _shadows(name, module, cwd):
    """Is this a module of the working directory that is named like one of Python's own?"""
    if name.partition(".")[0] not in _stdlib:
        return False
    path = os.path.abspath(getattr(module, "__file__", None) or "/")
    return cwd in (os.path.dirname(path), os.path.dirname(os.path.dirname(path)))


@contextlib.contextmanager
def without_cwd():
    """Imports without the working directory, whose files may be named like any module. What code
    has imported from there already is put aside meanwhile."""
    path = sys.path[:]
    try:
        cwd = os.getcwd()
    except OSError:
        cwd = ""  # removed
    aside = {name: m for name, m in list(sys.modules.items()) if _shadows(name, m, cwd)}
    for name in aside:
        del sys.modules[name]
    sys.path[:] = [entry for entry in path if entry not in ("", cwd)]
    try:
        yield
    finally:
        sys.path[:] = path
        sys.modules.update(aside)


def temporary(name):
    """A path for a library's caches. Not under the home directory: that may be the workspace,
    which holds what the code made."""
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", name)
