"""What a freshly forked kernel must have anew, so that siblings are not each other's copies in what
must differ: random numbers, keys and names.

Python reseeds `random` in every fork by itself; `secrets`, `uuid.uuid4()` and numpy's
`default_rng()` ask the operating system each time. The rest is here. Only what is loaded is touched,
and few pages of memory. Libraries that notice a fork by its pid alone are not relied on: a kernel
forked into another pid namespace may have its parent's.
"""

import os
import sys


def _numpy():
    """numpy's global generator: np.random.rand() and its like. Its state is set: to seed it would write
    to two and a half times as many pages, each a copy after a fork."""
    random = sys.modules.get("numpy.random")
    if random is None:
        return
    try:
        key = sys.modules["numpy"].frombuffer(os.urandom(624 * 4), "uint32")
        random.set_state(("MT19937", key, 624, 0, 0.0))
    except Exception:  # code has given it another generator
        random.seed()


def _multiprocessing():
    process = sys.modules.get("multiprocessing.process")
    if process is not None:
        process.current_process().authkey = os.urandom(32)


def _names():
    tempfile = sys.modules.get("tempfile")
    if tempfile is None:
        return
    tempfile._name_sequence = None
    synchronize = sys.modules.get("multiprocessing.synchronize")
    if synchronize is not None:
        synchronize.SemLock._rand = tempfile._RandomNameSequence()


def _uuid():
    """uuid1(): node and clock sequence are random where there is no network device."""
    uuid = sys.modules.get("uuid")
    if uuid is None:
        return
    uuid._node = uuid._last_timestamp = None
    uuid._generate_time_safe = None  # libuuid's own state cannot be renewed


def _ssl():
    ssl = sys.modules.get("_ssl")
    if ssl is not None:
        ssl.RAND_add(os.urandom(32), 32.0)


def prepare():
    """In a kernel that is about to be forked: what OpenSSL makes of itself at first need it makes here.
    In the fork it would write to a thousand pages, each a copy."""
    try:
        _ssl()
    except Exception:
        pass  # the fork will say so


def renew():
    """In the new kernel, before any code of the user."""
    for part in (_numpy, _multiprocessing, _names, _uuid, _ssl):
        try:
            part()
        except Exception as error:  # code has put something else in that place
            print(f"after the fork: {part.__name__[1:]} could not be renewed: {error!r}", file=sys.stderr)


def take_outputs(out, err):
    """The pipes become descriptors 1 and 2."""
    for fd, place in ((out, 1), (err, 2)):
        os.dup2(fd, place)
        os.close(fd)
