"""In a live kernel: after each event of a dashboard, what it shows is compared with a whole run in a
fork (oracle.py). Tests of the whole product put both files into the sandbox where SCB_VERIFY=1, and
ask for the log at their end."""

import builtins
import os
import sys
import tempfile
import types

log = []  # "ok", or what differs, of each event


def install():
    sys.path.insert(0, os.path.dirname(sys.modules["scb_kernel"].__path__[0]))
    from scb_dash import service

    plain = service.Service._replay

    def replay(self, one, event, cause):
        plain(self, one, event, cause)
        if one.error is None and cause.clicked is None:  # a whole run knows of no click
            log.append(_compare(self, one))

    service.Service._replay = replay


def _compare(service, one):
    import oracle
    from scb_dash.record import ABSENT

    tree = {"tree": one.tree}
    here = types.SimpleNamespace(board=one, service=service, kernel=oracle.InProcess(), tree=tree)
    base = {name: value for name, value in one.engine.base.items() if value is not ABSENT}
    base.update(__name__="__main__", __builtins__=builtins)
    folder = os.getcwd()
    os.chdir(tempfile.mkdtemp())  # what the script writes, it has written once
    try:
        oracle.check(here, base, dict(one.engine._state_base))
        return "ok"
    except AssertionError as error:
        return str(error)[:2000]
    finally:
        os.chdir(folder)
