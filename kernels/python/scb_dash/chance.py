"""The state of the random generators that a program shares: a version like any other."""

import random
import sys


def states():
    numpy_random = sys.modules.get("numpy.random")
    return random.getstate(), None if numpy_random is None else numpy_random.get_state()


def differ(a, b):
    if a is None or b is None:
        return a is not b
    if a[0] != b[0]:
        return True
    if a[1] is None or b[1] is None:
        return False  # numpy came in between
    return a[1][2:] != b[1][2:] or a[1][1].tobytes() != b[1][1].tobytes()


def restore(kept):
    if kept is None:
        return
    random.setstate(kept[0])
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None and kept[1] is not None:
        numpy_random.set_state(kept[1])
