"""From the template to a kernel in a sandbox.

The spare (a child of the template that has not been used) is given a connection, reads the request
from it, enters the sandbox's namespaces and makes the first process of ours in there, the kernel's
supervisor (`scb-agent supervise PID`). The spare's own memory goes to the kernel, and the spare ends
(src/agent/birth.h): so all that can be done before a request comes is done then, and not a page is
copied once it is there. The kernel is confined by the agent's own code before it comes back here.

    template ── spare ── │ ── supervisor ── kernel
     (host)              │      (in the sandbox)
"""

import ctypes
import fcntl
import os
import signal
import site
import socket
import sys
import time

from . import birth, figures, ipython, reborn, wire  # noqa: F401 (a kernel could not import)

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_CONNECTION = wire.TEMPLATE_FIRST_FD - 1
# In the order of the request's descriptors.
_SUPERVISOR, _CONTROL, _OUT, _ERR, _NAMESPACES = range(
    wire.TEMPLATE_FIRST_FD, wire.TEMPLATE_FIRST_FD + 5
)

_PANDAS = "import pandas as pd; pd.DataFrame({'a': [1, 2, 3]}).a.sum()"

_KERNELS = os.path.abspath(__file__ + "/../../..")

_libc = _library = None


# ---- in the template ----


def begin():
    """Before anything is loaded: nobody looks into this process, orphans come to it, and what its
    kernels show as their environment and command line is nothing of the host's."""
    global _libc, _library
    _libc = ctypes.CDLL(None, use_errno=True)
    _library = birth.Library(_KERNELS)
    _library.check()
    _prctl(_PR_SET_DUMPABLE, 0)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.umask(0o022)
    _show_nothing()


def loaded():
    """From now on it looks itself whether the broker lives, which it may outlive."""
    _prctl(_PR_SET_PDEATHSIG, 0)


def _prctl(option, value):
    if _libc.prctl(option, value, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def _show_nothing():
    """Writes over the areas that /proc/PID/cmdline and environ show."""
    environment = dict(os.environ)
    os.environ.clear()
    with open("/proc/self/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    first, last, first_env, last_env = (int(field) for field in fields[45:49])
    ctypes.memset(first_env, 0, last_env - first_env)
    shown = b"python3\0kernel.py\0"[: last - first]
    ctypes.memset(first, 0, last - first)
    ctypes.memmove(first, shown, len(shown))
    os.environ.update(environment)


# ---- in the spare ----


def rehearse_cells(kernel):
    """The way to a first result, so that the memory that it writes to is the spare's own by then.
    (No more than that: what only some kernels need would be memory of all.)"""
    broker, agent = socket.socketpair()
    for source in ("1 + 1", _PANDAS) if "pandas" in sys.modules else ("1 + 1",):
        broker.send(wire.frame(wire.CELL, wire.tlv(wire.TAG_CODE, source)))
    broker.shutdown(socket.SHUT_WR)
    kernel.rehearse(agent.detach())
    broker.close()


def rehearse_request():
    """The way from a request to a kernel, as far as it leaves nothing that the real one does not
    replace."""
    global _library
    broker, template = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    config = b"".join(wire.tlv(wire.BOOT_ENV, f"{name}=/{name}") for name in ("HOME", "TMPDIR", "PATH"))
    broker.send(
        wire.tlv(wire.TEMPLATE_FORK, config)
        + wire.tlv(wire.TEMPLATE_KERNELS_DIR, "/")
        + wire.tlv(wire.TEMPLATE_AGENT, "/")
    )
    request = _Request(template)
    _library.enter_namespaces([])
    _library.rehearse()
    _library.unload()
    _library = None
    _renew(request)
    template.send(wire.tlv(wire.TEMPLATE_DONE, b""))
    broker.close()
    template.close()
    _library = birth.Library(_KERNELS)
    _library.check()


def serve(kernel, fd, rehearsed):
    """Reads a request from the connection fd; does not return. rehearsed: the cells have been."""
    connection = None
    try:
        os.dup2(fd, _CONNECTION, inheritable=False)
        os.close(fd)
        connection = socket.socket(fileno=_CONNECTION)
        _become_kernel(kernel, connection, rehearsed)
    except BaseException as error:
        _report(connection, error)
    finally:
        os._exit(1)


def _report(connection, error):
    text = str(error) if isinstance(error, birth.Failed) else repr(error)
    try:
        if connection is not None:
            connection.send(wire.tlv(wire.TEMPLATE_ERROR, text[:500]))
    except OSError:
        pass


class _Request:
    def __init__(self, connection):
        data, fds, flags, _ = socket.recv_fds(
            connection, wire.TEMPLATE_DATAGRAM, wire.TEMPLATE_FDS
        )
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise birth.Failed("the request is too large")
        self.config, self.kernels_dir, self.agent = b"", "", ""
        self.namespaces = self.joins = 0
        self.touch = False
        for tag, value in wire.tlvs(data):
            number = int.from_bytes(value[:4], "big")
            if tag == wire.TEMPLATE_FORK:
                self.config = value
            elif tag == wire.TEMPLATE_NAMESPACES:
                self.namespaces = number
            elif tag == wire.TEMPLATE_JOINS:
                self.joins = number
            elif tag == wire.TEMPLATE_KERNELS_DIR:
                self.kernels_dir = os.fsdecode(value)
            elif tag == wire.TEMPLATE_AGENT:
                self.agent = os.fsdecode(value)
            elif tag == wire.TEMPLATE_TOUCH:
                self.touch = bool(number)
        self._fds = fds

    def place(self):
        """Puts the descriptors above all that a later step puts somewhere, and closes all others."""
        for i, fd in enumerate(self._fds):
            if fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, wire.TEMPLATE_FIRST_FD + i) != (
                wire.TEMPLATE_FIRST_FD + i
            ):
                raise birth.Failed("a descriptor is in the way")
        os.closerange(3, _CONNECTION)
        if len(self._fds) < 4 + self.namespaces + self.joins or not self.config:
            raise birth.Failed("the request is not whole")


def _become_kernel(kernel, connection, rehearsed):
    """Does not return in the kernel, and where there is one, not in this process."""
    request = _Request(connection)
    request.place()
    first = _NAMESPACES + request.namespaces
    _library.enter_namespaces(range(_NAMESPACES, first))
    os.closerange(_NAMESPACES, first)
    _library.take(_SUPERVISOR, request.agent, range(first, first + request.joins), request.config)
    _library.unload()  # its path is the host's
    control = _place_ends()
    _renew(request)
    connection.send(wire.tlv(wire.TEMPLATE_DONE, b""))
    os.close(connection.detach())
    if request.touch and not rehearsed:
        rehearse_cells(kernel)
    kernel.attach(control)
    kernel.serve()
    os._exit(0)


# ---- in the sandbox ----


def _place_ends():
    """Standard descriptors; the control socket's is given back."""
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(_OUT, 1)
    os.dup2(_ERR, 2)
    os.dup2(_CONTROL, 3)
    os.closerange(4, _CONNECTION)
    os.closerange(_CONNECTION + 1, 1 << 20)
    return 3


def _renew(request):
    """What a program that was executed in the sandbox would have of its own."""
    os.environ.clear()
    for tag, value in wire.tlvs(request.config):
        if tag == wire.BOOT_ENV:
            name, _, text = os.fsdecode(value).partition("=")
            os.environ[name] = text
    figures.environment()
    time.tzset()
    sys.path[0] = ""
    sys.argv[:] = [""]
    sys.orig_argv[:] = [sys.executable, os.path.join(request.kernels_dir, "python", "kernel.py")]
    _forget_places(request)


def _forget_places(request):
    """What libraries have noted of the template's own directories."""
    for package in (__package__, "scb_dash"):
        if package in sys.modules:
            sys.modules[package].__path__ = [os.path.join(request.kernels_dir, "python", package)]
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None
    site.USER_BASE = site.USER_SITE = None
    if site.ENABLE_USER_SITE:
        site.addusersitepackages(set())
    matplotlib = sys.modules.get("matplotlib")
    for name in ("get_configdir", "get_cachedir"):
        function = getattr(matplotlib, name, None)
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            if variable == "called":  # of its cache of one
                cell.cell_contents = False
