"""Frames and messages between agent and kernel (src/wire/frame.h, tlv.h, proto.h)."""

import _socket
import os
import select
import struct
import threading

VERSION = 1
PAYLOAD_MAX = 256 * 1024
READ_SIZE = 16 * 1024

DATA, CELL, DISPLAY, DONE, READY = 7, 14, 15, 16, 17
INTERRUPT, FORK, FORKED, ENV, EXPECT = 18, 19, 20, 21, 22
FLAG_FIN = 1

TAG_FEATURE, TAG_TEXT = 6, 16
TAG_ENV, TAG_CODE = 68, 75
TAG_EXIT_CODE, TAG_NOTE = 99, 100
TAG_LANGUAGE, TAG_ENGINE, TAG_VERSION = 132, 133, 134
TAG_CELL_STATUS = 144
TAG_MIME, TAG_MIME_DATA, TAG_IS_RESULT, TAG_MIME_SKIPPED = 145, 146, 147, 148
TAG_ERROR_NAME, TAG_ERROR_MESSAGE, TAG_TRACEBACK = 149, 150, 151
TAG_STDIN_MODE = 152

# Of the template's socket (enum wire_template).
TEMPLATE_HOLD, TEMPLATE_FORK, TEMPLATE_NAMESPACES, TEMPLATE_JOINS = 1, 2, 3, 4
TEMPLATE_KERNELS_DIR, TEMPLATE_AGENT, TEMPLATE_TOUCH = 5, 6, 7
TEMPLATE_READY, TEMPLATE_DONE, TEMPLATE_ERROR = 16, 18, 19
TEMPLATE_FIRST_FD, TEMPLATE_DATAGRAM, TEMPLATE_FDS = 64, 64 * 1024, 64
BOOT_ENV = 6

CELL_OK, CELL_ERROR, CELL_EXIT, CELL_INTERRUPTED = 0, 1, 2, 3

_header = struct.Struct(">BBHII")
_HEADER_SIZE = _header.size
_tlv = struct.Struct(">HI")
_TLV_SIZE = _tlv.size
_fd = struct.Struct("=i")
_FDS_SPACE = _socket.CMSG_SPACE(8 * _fd.size)
_CLOEXEC = _socket.MSG_CMSG_CLOEXEC


class ProtocolError(Exception):
    pass


def tlv(tag, value):
    """One tag with its value: bytes, text or a number ≥ 0."""
    if isinstance(value, int):
        value = value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")
    elif isinstance(value, str):
        value = value.encode("utf-8", "backslashreplace")
    return _tlv.pack(tag, len(value)) + value


def tag_at(payload, at):
    """The tag at a place of a message, and where its value begins and ends."""
    begin = at + _TLV_SIZE
    if begin > len(payload):
        raise ProtocolError("a message ends inside a tag")
    tag, length = _tlv.unpack_from(payload, at)
    end = begin + length
    if end > len(payload):
        raise ProtocolError("a message ends inside a value")
    return tag, begin, end


def tlvs(payload):
    """The (tag, bytes) pairs of a message."""
    at = 0
    while at < len(payload):
        tag, begin, at = tag_at(payload, at)
        yield tag, payload[begin:at]


def frame(kind, payload):
    return _header.pack(VERSION, kind, 0, 0, len(payload)) + payload


class Channel:
    """The socket to the agent. Reading is the main thread's; any thread may send. A forked child
    has none of it: there, sending does nothing."""

    def __init__(self, fd, interrupts):
        self._fd = fd
        self._socket = None if fd is None else _socket.socket(fileno=fd)
        # Who sleeps in recvmsg() is woken for nothing when the agent takes an answer; who polls is not.
        self._waiting = select.poll()
        if fd is not None:
            self._waiting.register(fd, select.POLLIN)
        self._interrupts = interrupts
        self._in = b""
        self._fds = []  # came with the last bytes read
        self._lock = threading.Lock()
        self.in_cell = False
        self.forked = False

    def waits(self):
        """Has something come?"""
        return bool(self._in) or bool(select.select([self._fd], [], [], 0)[0])

    def read(self):
        """The next frame: (kind, flags, payload). EOFError once the agent is gone."""
        while True:
            got = self._in
            if len(got) >= _HEADER_SIZE:
                version, kind, flags, _, length = _header.unpack_from(got)
                if version != VERSION or length > PAYLOAD_MAX:
                    raise ProtocolError("not a frame")
                end = _HEADER_SIZE + length
                if len(got) >= end:
                    self._in = got[end:]
                    return kind, flags, got[_HEADER_SIZE:end]
            self._waiting.poll()
            # A large buffer would be mapped and unmapped for every cell; most frames are small.
            self._receive(READ_SIZE if len(got) < READ_SIZE else PAYLOAD_MAX)

    def _receive(self, size, flags=0):
        chunk, extra, _, _ = self._socket.recvmsg(size, _FDS_SPACE, flags | _CLOEXEC)
        if not chunk:
            raise EOFError
        self._in += chunk
        if not extra:
            return
        for level, kind, data in extra:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                self._fds += [fd for fd, in _fd.iter_unpack(data)]

    def take_fds(self):
        """The descriptors that came with the frame just read."""
        fds, self._fds = self._fds, []
        return fds

    def frame_waits(self, wanted):
        """Has a frame of that kind come behind the cell? Does not wait, and leaves it to be read."""
        try:
            while True:
                self._receive(PAYLOAD_MAX, _socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass
        at = 0
        while len(self._in) - at >= _header.size:
            _, kind, _, _, length = _header.unpack_from(self._in, at)
            if kind == wanted:
                return True
            at += _header.size + length
        return False

    def close(self):
        self._socket.close()

    def readable(self):
        return bool(self._in)

    def fileno(self):
        return self._fd

    def display(self, frame):
        """Sends a DISPLAY frame, but not for a thread that outlives its cell."""
        with self._interrupts, self._lock:
            if self.in_cell:
                self._write(frame)

    def end_cell(self, frames):
        """Sends the last frames of a cell, and nothing after them until the next one. None runs any
        more, so that no interrupt raises."""
        self._lock.acquire()  # touches less memory than `with`
        try:
            self.in_cell = False
            self._write(frames)
        finally:
            self._lock.release()

    def _write(self, frames):
        """Whole: an interrupt waits until they are out."""
        while frames and not self.forked:
            frames = frames[os.write(self._fd, frames) :]

    def after_fork_in_child(self):
        self._lock = threading.Lock()
        if not self.forked and self._socket is not None:
            self._socket.close()
        self.forked = True
