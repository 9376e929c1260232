"""A small broker for tests: starts the real scb-agent and speaks its protocol.

See docs/agent-protocol.md; the numbers are those of src/wire/frame.h and proto.h.
"""

import hashlib
import hmac
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AGENT = os.environ.get("SCB_AGENT", os.path.join(ROOT, "build", "scb-agent"))


def _numbers(path, prefixes):
    """The enum constants of a header: NAME = number."""
    text = open(os.path.join(ROOT, "src", "wire", path)).read()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = re.findall(r"\b([A-Z][A-Z0-9_]+)\s*=\s*(\d+)\b", text)
    return {name: int(value) for name, value in found if name.startswith(prefixes)}


globals().update(_numbers("frame.h", ("FRAME_",)))
globals().update(
    _numbers(
        "proto.h",
        ("OP_", "WIRE_", "EVENT_", "JOB_", "CHANNEL_", "STDIN_", "REASON_", "EVIDENCE_", "CELL_",
         "TAG_", "BOOT_", "CONFINE_"),
    )
)
WINDOW = 256 * 1024
PAYLOAD_MAX = 256 * 1024
SYNC = bytes([0x00, 0xFF]) + b"scb" + bytes(
    [0x1A, 0xD7, 0x5E, 0x91, 0x0C, 0xE3, 0x66, 0xBA, 0x28, 0x7F, 0x00]
)

_names = {
    prefix: {v: k for k, v in globals().items() if k.startswith(prefix) and isinstance(v, int)}
    for prefix in ("WIRE_", "REASON_", "TAG_", "OP_")
}


def number(value):
    return int(value).to_bytes(max(1, (int(value).bit_length() + 7) // 8), "big")


def tlv(tag, value):
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, int):
        value = number(value)
    if isinstance(value, str):
        value = value.encode()
    return struct.pack(">HI", tag, len(value)) + value


def tlvs(data):
    found, at = [], 0
    while at < len(data):
        tag, n = struct.unpack_from(">HI", data, at)
        at += 6
        assert at + n <= len(data), "a TLV is cut"
        found.append((tag, data[at : at + n]))
        at += n
    return found


def frame(kind, stream=0, payload=b"", flags=0, version=1):
    return struct.pack(">BBHII", version, kind, flags, stream, len(payload)) + payload


class Message:
    """TLVs by name: m.exit_code is a number, m.bytes_("stdout_head") bytes, m.all("note") a list."""

    def __init__(self, data):
        self.items = tlvs(data)

    def all(self, name):
        tag = globals()["TAG_" + name.upper()]
        return [value for t, value in self.items if t == tag]

    def bytes_(self, name):
        values = self.all(name)
        return values[0] if values else None

    def text(self, name):
        value = self.bytes_(name)
        return None if value is None else value.decode()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        value = self.bytes_(name)
        return None if value is None else int.from_bytes(value, "big")

    @property
    def notes(self):
        return [note.decode() for note in self.all("note")]

    @property
    def reason_name(self):
        return _names["REASON_"].get(self.reason)

    @property
    def stdout(self):
        return (self.bytes_("stdout_head") or b"") + (self.bytes_("stdout_tail") or b"")

    @property
    def stderr(self):
        return (self.bytes_("stderr_head") or b"") + (self.bytes_("stderr_tail") or b"")

    def __repr__(self):
        return " ".join(
            f"{_names['TAG_'].get(tag, tag)}={value[:60]!r}" for tag, value in self.items
        )


class LinkLost(Exception):
    pass


class Answer:
    """How a stream ended: status, the END's message, the MSGs before it, the DATA."""

    def __init__(self):
        self.status = None
        self.end = None
        self.msgs = []
        self.data = b""
        self.credit = WINDOW

    @property
    def status_name(self):
        return _names["WIRE_"].get(self.status, self.status)

    def __repr__(self):
        return f"<{self.status_name} {self.end}>"


class Client:
    """One link. Methods block, for at most `patience` seconds."""

    def __init__(self, path, key, patience=20):
        """path: of a listening socket, or a socket that is connected."""
        self.key = key
        self.patience = patience
        if isinstance(path, socket.socket):
            self.socket = path
        else:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.socket.connect(path)
        self._in = b""
        self._next = 1
        self.open_streams = {}
        self.events = []
        self.give_credit = True
        self.hello = None

    # ---- frames ----

    def send(self, data):
        self.socket.sendall(data)

    def read_frame(self, patience=None):
        """(type, flags, stream, payload). LinkLost at the end of the link."""
        deadline = time.monotonic() + (self.patience if patience is None else patience)
        while True:
            if len(self._in) >= 12:
                version, kind, flags, stream, n = struct.unpack_from(">BBHII", self._in)
                assert version == 1 and n <= PAYLOAD_MAX, "the agent sent no frame"
                if len(self._in) >= 12 + n:
                    payload, self._in = self._in[12 : 12 + n], self._in[12 + n :]
                    return kind, flags, stream, payload
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                raise TimeoutError("no frame came")
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                raise LinkLost()
            self._in += data

    # ---- handshake ----

    def challenge(self, nonce_b=None):
        """Sends CHALLENGE, returns (nonce_b, nonce_a, mac) of PROOF."""
        nonce_b = nonce_b or os.urandom(32)
        self.send(frame(FRAME_CHALLENGE, 0, SYNC + nonce_b))
        kind, _, _, payload = self.read_frame()
        assert kind == FRAME_PROOF and len(payload) == 64
        return nonce_b, payload[:32], payload[32:]

    def agent_mac(self, nonce_b, nonce_a):
        return hmac.new(self.key, b"scb agent v1" + nonce_b + nonce_a, hashlib.sha256).digest()

    def broker_mac(self, nonce_a, nonce_b):
        return hmac.new(self.key, b"scb broker v1" + nonce_a + nonce_b, hashlib.sha256).digest()

    def handshake(self):
        nonce_b, nonce_a, mac = self.challenge()
        assert hmac.compare_digest(mac, self.agent_mac(nonce_b, nonce_a)), "not our agent"
        self.send(frame(FRAME_CONFIRM, 0, self.broker_mac(nonce_a, nonce_b)))
        kind, _, _, payload = self.read_frame()
        assert kind == FRAME_HELLO
        self.hello = Message(payload)
        return self

    # ---- streams ----

    def open(self, op, *parts):
        number_ = self._next
        self._next += 1
        self.open_streams[number_] = Answer()
        self.send(frame(FRAME_OPEN, number_, struct.pack(">H", op) + b"".join(parts)))
        return number_

    def open_with_fds(self, fds, op, *parts):
        number_ = self._next
        self._next += 1
        self.open_streams[number_] = Answer()
        payload = struct.pack(">H", op) + b"".join(parts)
        socket.send_fds(self.socket, [frame(FRAME_OPEN, number_, payload)], fds)
        return number_

    def data(self, stream, data, fin=False):
        """Sends against credit, waiting for it."""
        answer = self.open_streams[stream]
        while True:
            part, data = data[: min(answer.credit, 65536)], data[min(answer.credit, 65536) :]
            answer.credit -= len(part)
            last = fin and not data
            if part or last:
                self.send(frame(FRAME_DATA, stream, part, 1 if last else 0))
            if not data or answer.status is not None:
                return
            if not answer.credit:
                self.step()

    def step(self, patience=None):
        """Takes one frame in."""
        kind, flags, stream, payload = self.read_frame(patience)
        if kind == FRAME_EVENT:
            self.events.append((struct.unpack_from(">H", payload)[0], Message(payload[2:])))
            return
        answer = self.open_streams.get(stream)
        if kind == FRAME_MSG:
            answer.msgs.append(Message(payload))
        elif kind == FRAME_DATA:
            answer.data += payload
            if self.give_credit and payload:
                self.send(frame(FRAME_CREDIT, stream, struct.pack(">I", len(payload))))
        elif kind == FRAME_CREDIT:
            if answer:
                answer.credit += struct.unpack(">I", payload)[0]
        elif kind in (FRAME_END, FRAME_RESET):
            answer.status = struct.unpack_from(">H", payload)[0]
            answer.end = Message(payload[2:])
        elif kind != FRAME_PONG:
            raise AssertionError(f"unexpected frame {kind}")

    def wait(self, stream):
        answer = self.open_streams[stream]
        while answer.status is None:
            self.step()
        del self.open_streams[stream]
        return answer

    def call(self, op, *parts):
        return self.wait(self.open(op, *parts))

    # ---- jobs ----

    def start(self, command=None, *, argv=None, job=None, wait_ms=None, timeout_ms=0, env=(),
              cwd=None, stdin=STDIN_EMPTY, inline=32768, more=b""):
        self.job = job or os.urandom(16)
        parts = [tlv(TAG_JOB, self.job), tlv(TAG_JOB_KIND, JOB_KIND_COMMAND)]
        if command is not None:
            parts.append(tlv(TAG_SHELL_TEXT, command))
        parts += [tlv(TAG_ARGV, arg) for arg in argv or ()]
        parts += [tlv(TAG_ENV, text) for text in env]
        if cwd is not None:
            parts.append(tlv(TAG_CWD, cwd))
        parts += [tlv(TAG_STDIN, stdin), tlv(TAG_TIMEOUT_MS, timeout_ms), tlv(TAG_INLINE, inline)]
        if wait_ms is not None:
            parts.append(tlv(TAG_WAIT_MS, wait_ms))
        return self.open(OP_JOB_START, *parts, more)

    def run(self, command=None, **options):
        return self.wait(self.start(command, **options))

    def cell(self, code, *, kernel="k", job=None, wait_ms=None, timeout_ms=0, stdin=STDIN_EMPTY,
             inline=32768):
        self.job = job or os.urandom(16)
        parts = [tlv(TAG_JOB, self.job), tlv(TAG_JOB_KIND, JOB_KIND_CELL), tlv(TAG_KERNEL, kernel),
                 tlv(TAG_CODE, code), tlv(TAG_STDIN, stdin), tlv(TAG_TIMEOUT_MS, timeout_ms),
                 tlv(TAG_INLINE, inline)]
        if wait_ms is not None:
            parts.append(tlv(TAG_WAIT_MS, wait_ms))
        return self.open(OP_JOB_START, *parts)

    def run_cell(self, code, **options):
        return self.wait(self.cell(code, **options))

    def wait_job(self, job, wait_ms=None, inline=32768):
        parts = [tlv(TAG_JOB, job), tlv(TAG_INLINE, inline)]
        if wait_ms is not None:
            parts.append(tlv(TAG_WAIT_MS, wait_ms))
        return self.call(OP_JOB_WAIT, *parts)

    def read(self, job, channel=CHANNEL_STDOUT, offset=0, length=1 << 40):
        return self.call(OP_JOB_READ, tlv(TAG_JOB, job), tlv(TAG_CHANNEL, channel),
                         tlv(TAG_OFFSET, offset), tlv(TAG_LENGTH, length))

    def signal(self, job, sig):
        return self.call(OP_JOB_SIGNAL, tlv(TAG_JOB, job), tlv(TAG_SIGNAL, sig))

    def input(self, job, data, close=True):
        stream = self.open(OP_JOB_INPUT, tlv(TAG_JOB, job), tlv(TAG_CLOSE, close))
        self.data(stream, data, fin=True)
        return self.wait(stream)

    def start_kernel(self, argv, kernel="k", env=()):
        return self.call(OP_KERNEL_START, tlv(TAG_KERNEL, kernel),
                         *[tlv(TAG_ARGV, arg) for arg in argv],
                         *[tlv(TAG_ENV, text) for text in env])

    def close(self):
        self.socket.close()


class Agent:
    """The program itself, with its own workspace, unconfined. stream: one stream instead of a
    listening socket; its other end is agent.stream."""

    def __init__(self, *boot, orphan_ms=60000, lease_ms=0, stream=False, stderr=None):
        self.key = os.urandom(32)
        self.boot_id = os.urandom(16)
        self.folder = tempfile.mkdtemp(prefix="scb-agent-test-")
        self.workspace = os.path.join(self.folder, "workspace")
        os.mkdir(self.workspace)
        self.path = os.path.join(self.folder, "agent.sock")
        if stream:
            self.stream, listening = socket.socketpair()
        else:
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listening.bind(self.path)
            listening.listen(8)
        config = b"".join([
            tlv(BOOT_KEY, self.key), tlv(BOOT_ID, self.boot_id),
            tlv(BOOT_WORKSPACE, self.workspace), tlv(BOOT_TMP, self.folder),
            tlv(BOOT_ENV, "PATH=/usr/bin:/bin"), tlv(BOOT_ENV, "LANG=C.UTF-8"),
            tlv(BOOT_ENV, "HOME=" + self.workspace),
            tlv(BOOT_CONFINE, 0), tlv(BOOT_LEASE_MS, lease_ms), tlv(BOOT_ORPHAN_MS, orphan_ms),
            *boot,
        ])
        reading, writing = os.pipe()
        os.write(writing, config)
        os.close(writing)
        fd = listening.fileno()
        mode = "stream" if stream else "listen"
        self.process = subprocess.Popen([AGENT, f"{mode}:{fd}", str(reading)],
                                        pass_fds=[fd, reading], env={}, stderr=stderr)
        os.close(reading)
        listening.close()
        self.clients = []

    def connect(self):
        client = Client(self.path, self.key)
        self.clients.append(client)
        return client

    def client(self):
        return self.connect().handshake()

    def memory_kib(self):
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS"):
                return int(line.split()[1])

    def stop(self):
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            try:
                client = self.client()
                client.open(OP_SHUTDOWN)
                self.process.wait(5)
            except (LinkLost, TimeoutError, OSError, subprocess.TimeoutExpired):
                self.process.send_signal(signal.SIGKILL)
        code = self.process.wait(5)
        for client in self.clients:
            client.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return code
