"""The template: a Python process with the usual libraries loaded, outside every sandbox, from which
kernels are forked into sandboxes.

    python3 template.py LISTENER LIFELINE BUILD

LISTENER is a listening SOCK_SEQPACKET socket (docs/agent-protocol.md, "The template"), LIFELINE the
reading end of a pipe that the broker holds, BUILD what it answers a holder. Lives until broker and holders are gone and the last
kernel is reaped. Runs no code of a user: that begins in a forked child, inside its sandbox
(scb_kernel/forked.py), which reads the request, too.

One child, the spare, is forked before it is needed and takes the connections (scb_kernel/spare.py).
"""

import gc
import os
import select
import signal
import socket
import struct
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [here] + [entry for entry in sys.path if entry not in ("", here)]

from scb_kernel import forked, loop, reborn, spare, warm, wire  # noqa: E402

_STAT = struct.Struct("qQq")
SPARE_AFTER_MS = 50  # of quiet


class Refused(Exception):
    """Why kernels are not to be forked from here."""


# ---- loading ----


def load(name):
    """Imports a library; False where it is not there or does not work."""
    try:
        __import__(name)
    except Exception as error:
        if not isinstance(error, ModuleNotFoundError):
            print(f"{name} cannot be loaded: {error!r}", file=sys.stderr)
        return False
    return True


def warm_up(kernel):
    """Loads and uses what most cells use, so that no kernel has to."""
    for name in warm.LIBRARIES + warm.IPYTHON + ("scb_dash.service",):
        load(name)
    warm.touch()
    forked.rehearse_cells(kernel)
    figures = sys.modules.get("matplotlib.pyplot")
    if figures is not None:
        figures.figure()
        figures.plot([1, 2, 3], label="a")
        figures.title("a")
        figures.legend()
        kernel_figures = sys.modules["scb_kernel.figures"]
        kernel_figures.png(figures.gcf())
        figures.close("all")
        # Every fork empties it, which writes to no memory where it is empty.
        fonts = getattr(sys.modules.get("matplotlib.font_manager"), "_get_font", None)
        if hasattr(fonts, "cache_clear"):
            fonts.cache_clear()


# ---- may it be trusted? ----


def mapped_files():
    """Files that are mapped into this process: the program and its libraries."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if "/" in line}
    return {path for path in paths if path.startswith("/") and not path.startswith("/dev/")}


def check_unwritable():
    """The program must not be one that a kernel's uid may write: /proc/self/exe leads from inside
    the sandbox to the file on the host."""
    modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    own = os.path.dirname(here) + os.sep
    for path in sorted(mapped_files() | {path for path in modules if path}):
        if path.startswith(own):
            continue  # dropped, or kernels/ itself, before code runs
        for place in (path, os.path.dirname(path)):
            if os.access(place, os.W_OK, effective_ids=True):
                raise Refused(f"{place} may be written by this user")


def check_single():
    tasks = os.listdir("/proc/self/task")
    if len(tasks) != 1:
        raise Refused(f"a library has started threads ({len(tasks)} there are)")


class Fingerprint:
    """What was loaded, as it lies on the disk: a change makes the template stale.

    Two pieces of bytes and no more: who looks at an object writes to its count of references, and
    the page that it stands on is a copy of each kernel's own from then on."""

    def __init__(self):
        top = [module for name, module in list(sys.modules.items()) if "." not in name]
        paths = {sys.executable, *sys.path}
        paths.update(getattr(module, "__file__", None) for module in top)
        for own in (os.path.join(here, "scb_kernel"), os.path.join(here, "scb_dash")):
            paths.update(os.path.join(own, name) for name in os.listdir(own))
        self._paths = b"".join(os.fsencode(path) + b"\0" for path in sorted(filter(None, paths)))
        self._seen = self._look()

    def _look(self):
        seen, at = bytearray(), 0
        while at < len(self._paths):
            end = self._paths.index(b"\0", at)
            try:
                st = os.stat(self._paths[at:end])
                seen += _STAT.pack(st.st_mtime_ns, st.st_ino, st.st_size)
            except OSError:
                seen += _STAT.pack(0, 0, 0)
            at = end + 1
        return bytes(seen)

    def holds(self):
        return self._look() == self._seen


# ---- serving ----


class Template:
    def __init__(self, listener, lifeline, build):
        self.build = build
        self.listener = socket.socket(fileno=listener)
        self.lifeline = lifeline
        self.owner = os.stat(lifeline).st_uid  # who made the pipe
        self.holders = {}  # descriptor: connection
        self.spare = None  # (pid, the socket to it)
        self.stale = False
        self.kernel = loop.Kernel()
        self.kernel.install()
        warm_up(self.kernel)
        check_single()
        if os.geteuid() == self.owner:
            check_unwritable()
        self.fingerprint = Fingerprint()
        self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def reap(self, *_):
        """From the signal's handler, so that no PID namespace waits for it."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return

    def fork_spare(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            spare.Spare(self.kernel, self.listener, theirs, self.owner, self.fingerprint).live()
        theirs.close()
        self.spare = pid, ours

    def hear(self):
        """What the spare says. Its socket ends when it is none any more."""
        told, fds, _, _ = socket.recv_fds(self.spare[1], 1, 1)
        if not told:
            self.drop_spare()
        elif told == spare.STALE:
            self.stale = True
        for fd in fds:
            self.hold(socket.socket(fileno=fd))

    def drop_spare(self):
        self.spare[1].close()
        self.spare = None

    def hold(self, connection):
        connection.settimeout(1)
        try:
            connection.recv(1024)
            connection.send(wire.tlv(wire.TEMPLATE_READY, self.build))
        except OSError:
            connection.close()
            return
        self.holders[connection.fileno()] = connection

    def wanted(self):
        return not self.stale and (self.lifeline is not None or bool(self.holders))

    @staticmethod
    def has_children():
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def serve(self):
        """Until nobody wants it and the last kernel is reaped. (Without a spare, no child is left
        that is no kernel.)"""
        signal.signal(signal.SIGCHLD, self.reap)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        self.fork_spare()
        while True:
            if not self.wanted():
                if self.spare is not None:
                    self.drop_spare()
                elif not self.has_children():
                    return
            self.wait()

    def wait(self):
        poll = select.poll()
        needs_spare = self.spare is None and self.wanted()
        # A spare takes what comes; while there is none, its coming says that one is needed at once.
        own = self.listener if self.spare is None else self.spare[1]
        for fd in (self._wake[0], self.lifeline, own.fileno(), *self.holders):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(SPARE_AFTER_MS if needs_spare else None)}
        if own is not self.listener and own.fileno() in ready:
            self.hear()
        # Not while the last one still forks: both would be slower for it.
        if needs_spare and (not ready or self.listener.fileno() in ready):
            self.fork_spare()
        if self._wake[0] in ready:
            os.read(self._wake[0], 4096)
            self.reap()
        if self.lifeline in ready:
            os.close(self.lifeline)
            self.lifeline = None
        for fd in ready & self.holders.keys():
            self.holders.pop(fd).close()
        if self.stale:
            for connection in self.holders.values():
                connection.close()
            self.holders.clear()


def main():
    listener, lifeline, build = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sys.argv[:] = [""]
    os.set_inheritable(listener, False)
    os.set_inheritable(lifeline, False)
    forked.begin()
    if select.select([lifeline], [], [], 0)[0]:
        return  # the broker went before its end could be a signal
    try:
        template = Template(listener, lifeline, build)
    except Refused as why:
        print(f"no template: {why}", file=sys.stderr)
        sys.exit(3)
    # Here as well, although every kernel renews it again: what OpenSSL makes of itself at first need,
    # 4 MB, is shared then.
    reborn.renew()
    gc.collect()
    gc.freeze()
    forked.loaded()
    template.serve()
    os._exit(0)  # at once: an interpreter of this size takes long to take down


main()
