"""Importing what the kernel itself needs, once code may have put files beside it."""

import contextlib
import os
import sys


@contextlib.contextmanager
def without_cwd():
    """sys.path without the working directory, whose files may be named like any module."""
    saved = sys.path[:]
    try:
        cwd = os.getcwd()
    except OSError:
        cwd = ""
    sys.path[:] = [entry for entry in saved if entry not in ("", cwd)]
    try:
        yield
    finally:
        sys.path[:] = saved


def temporary(name):
    """A path for a library's caches. Not under the home directory: that may be the workspace,
    which holds what the code made."""
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", name)
