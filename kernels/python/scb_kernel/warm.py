"""The usual libraries, loaded before a cell needs them: by the template, and by a kernel that is kept
ready for a session to come."""

import sys

from . import paths

# Loaded where they are installed, in this order.
LIBRARIES = ("numpy", "pandas", "matplotlib.pyplot")
# Of IPython only the modules: a kernel makes its shell when a cell needs it.
IPYTHON = ("IPython.core.interactiveshell", "IPython.core.displayhook", "IPython.core.displaypub",
           "IPython.core.formatters", "IPython.core.compilerop", "traitlets.config")


def touch():
    """What most first cells do. (Not in each kernel that is forked as well: that would be 4 MB of memory
    of its own, for two milliseconds of one of its cells.)"""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return
    from . import show

    frame = pandas.DataFrame({"a": ["x", "y", "x"], "b": [1.0, 2.0, 3.0], "c": [1, 2, 3]})
    frame.describe()
    frame.groupby("a").b.mean()
    show.bundle(frame)


def up(channel):
    """Until something comes, which then does not wait for more than one library."""
    with paths.without_cwd():
        for name in LIBRARIES + IPYTHON:
            if channel.waits():
                return
            try:
                __import__(name)
            except Exception:  # a cell that needs it is told why
                pass
        touch()
