"""A child of the template that waits to become a kernel.

It takes the connections of the template's socket, so that a request meets a process whose memory is
its own already: each page that one writes to for the first time after a fork costs a page fault and
a copy. What the way from the request to a first result needs it has therefore done once, unless
somebody waits. A connection that holds the template it hands to the template.
"""

import os
import select
import signal
import socket
import struct
import sys

from . import forked, reborn, wire

# What a spare says to the template.
HOLD, STALE = b"h", b"s"
_PEEK = 2  # bytes: the tag that says what is asked for
_CREDENTIALS = struct.Struct("3i")


def _close_others(*kept):
    at = 3
    for fd in sorted(kept):
        os.closerange(at, fd)
        at = fd + 1
    os.closerange(at, 1 << 20)


class Spare:
    def __init__(self, kernel, listener, template, owner, fingerprint):
        """template is the socket to it, whose end ends the spare; owner may ask, and root."""
        self._kernel = kernel
        self._listener = listener
        self._template = template
        self._owner = owner
        self._fingerprint = fingerprint
        self._rehearsed = False  # the cells

    def live(self):
        """Does not return."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _close_others(self._listener.fileno(), self._template.fileno())
            reborn.renew()  # nobody else will have these
            self._rehearse()
            while True:
                ready = self._wait(None)
                if self._template.fileno() in ready:
                    return  # no more is wanted
                if ready:
                    self._accept()
        finally:
            os._exit(1)

    def _wait(self, timeout_ms):
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._template, select.POLLIN)
        return [fd for fd, _ in poll.poll(timeout_ms)]

    def _rehearse(self):
        for part in (self._rehearse_cells, forked.rehearse_request, self._fingerprint.holds):
            if self._wait(0):
                return
            try:
                part()
            except Exception as error:  # it will be slower, or say itself why there is no kernel
                print(f"a spare cannot rehearse: {error!r}", file=sys.stderr)

    def _rehearse_cells(self):
        forked.rehearse_cells(self._kernel)
        self._rehearsed = True

    def _accept(self):
        connection, _ = self._listener.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(credentials)[1] not in (0, self._owner):
            connection.close()
            return
        connection.settimeout(1)
        try:
            # Without room for descriptors none is taken.
            tag = connection.recv(_PEEK, socket.MSG_PEEK)
        except OSError:
            tag = b""
        if tag == struct.pack(">H", wire.TEMPLATE_HOLD):
            socket.send_fds(self._template, [HOLD], [connection.fileno()])
        elif tag == struct.pack(">H", wire.TEMPLATE_FORK):
            self._serve(connection)
        connection.close()

    def _serve(self, connection):
        """Returns where it was not served."""
        if not self._fingerprint.holds():
            self._template.send(STALE)
            connection.recv(wire.TEMPLATE_DATAGRAM)  # unread, it would hide the answer
            connection.send(wire.tlv(wire.TEMPLATE_ERROR, "what it has loaded was changed"))
            return
        self._listener.detach()
        self._template.detach()
        forked.serve(self._kernel, connection.detach(), self._rehearsed)
