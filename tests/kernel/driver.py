"""Drives a real kernel over a socketpair, as the agent does."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNEL = os.path.join(ROOT, "kernels", "python", "kernel.py")
PYTHON = "/usr/bin/python3"

HEADER = struct.Struct(">BBHII")
DATA, CELL, DISPLAY, DONE, READY, EXPECT = 7, 14, 15, 16, 17, 22
FIN = 1
CODE, EXIT_CODE = 75, 99
LANGUAGE, ENGINE, VERSION = 132, 133, 134
CELL_STATUS, MIME, MIME_DATA, IS_RESULT, MIME_SKIPPED = 144, 145, 146, 147, 148
ERROR_NAME, ERROR_MESSAGE, TRACEBACK, STDIN_MODE = 149, 150, 151, 152
OK, ERROR, EXIT, INTERRUPTED = 0, 1, 2, 3


def tlv(tag, value):
    return struct.pack(">HI", tag, len(value)) + value


def tlvs(payload):
    at, out = 0, []
    while at < len(payload):
        tag, length = struct.unpack_from(">HI", payload, at)
        out.append((tag, payload[at + 6 : at + 6 + length]))
        at += 6 + length
    return out


class KernelDied(Exception):
    pass


class Result:
    """How a cell ended, what it showed, what it printed."""

    def __init__(self):
        self.status = self.exit_code = None
        self.name = self.message = self.traceback = ""
        self.shown = []  # (is_result, {mime: bytes}, [skipped])
        self.out = self.err = ""

    @property
    def value(self):
        """text/plain of the result, or None."""
        for is_result, mimes, _ in self.shown:
            if is_result:
                return mimes["text/plain"].decode()
        return None


class Kernel:
    def __init__(self, plain=False, argv=None):
        """The Python kernel, or the program that argv names."""
        self._top = tempfile.mkdtemp(prefix="scb-kernel-test-")
        self.cwd, tmp = os.path.join(self._top, "work"), os.path.join(self._top, "tmp")
        os.mkdir(self.cwd)
        os.mkdir(tmp)
        self._errors = "replace" if argv else "strict"  # bash's own messages are not always text
        ours, theirs = socket.socketpair()
        self._files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]
        self._at = [0, 0]
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": self.cwd,
            "TMPDIR": tmp,
            "LANG": "C.UTF-8",
            "SCB_KERNEL_FD": str(theirs.fileno()),
        }
        # -S hides Debian's packages, IPython and pandas among them.
        self.process = subprocess.Popen(
            argv or [PYTHON] + (["-S"] if plain else []) + ["-B", KERNEL],
            cwd=self.cwd,
            env=environment,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._files[0],
            stderr=self._files[1],
            start_new_session=True,
        )
        theirs.close()
        self.sock = ours
        self.sock.settimeout(60)
        self._in = b""
        kind, payload = self.read()
        assert kind == READY, kind
        self.ready = {tag: value.decode() for tag, value in tlvs(payload)}

    def read(self):
        while True:
            if len(self._in) >= 12:
                version, kind, _, _, length = HEADER.unpack_from(self._in)
                assert version == 1, self._in[:12]
                assert length <= 256 * 1024, length
                if len(self._in) >= 12 + length:
                    payload = self._in[12 : 12 + length]
                    self._in = self._in[12 + length :]
                    return kind, payload
            chunk = self.sock.recv(1 << 18)
            if not chunk:
                raise KernelDied(self.process.wait(10))
            self._in += chunk

    def send(self, kind, payload, flags=0):
        self.sock.sendall(HEADER.pack(1, kind, flags, 0, len(payload)) + payload)

    def start(self, code, stdin_open=False):
        code = code.encode("utf-8", "surrogatepass")
        self.send(CELL, tlv(CODE, code) + tlv(STDIN_MODE, b"\1" if stdin_open else b"\0"))

    def finish(self):
        result = Result()
        while True:
            kind, payload = self.read()
            fields = tlvs(payload)
            if kind == DISPLAY:
                mimes, skipped, name, is_result = {}, [], None, False
                for tag, value in fields:
                    if tag == MIME:
                        name = value.decode()
                    elif tag == MIME_DATA:
                        mimes[name] = value
                    elif tag == MIME_SKIPPED:
                        skipped.append(value.decode())
                    elif tag == IS_RESULT:
                        is_result = value == b"\1"
                result.shown.append((is_result, mimes, skipped))
                continue
            assert kind == DONE, kind
            got = dict(fields)
            result.status = got[CELL_STATUS][-1]
            if EXIT_CODE in got:
                result.exit_code = int.from_bytes(got[EXIT_CODE], "big")
            result.name = got.get(ERROR_NAME, b"").decode()
            result.message = got.get(ERROR_MESSAGE, b"").decode()
            result.traceback = got.get(TRACEBACK, b"").decode()
            result.out, result.err = self.output()
            return result

    def output(self):
        texts = []
        for i, file in enumerate(self._files):
            size = os.fstat(file.fileno()).st_size
            data = os.pread(file.fileno(), size - self._at[i], self._at[i])
            self._at[i] += len(data)
            texts.append(data.decode("utf-8", self._errors))
        return texts

    def run(self, code, stdin=None):
        self.start(code, stdin is not None)
        if stdin is not None:
            self.send(DATA, stdin, FIN)
        return self.finish()

    def interrupt_after(self, seconds):
        timer = threading.Timer(seconds, self.interrupt)
        timer.start()
        return timer

    def input_after(self, seconds, data):
        """Input of the cell that runs then."""
        timer = threading.Timer(seconds, self.send, (DATA, data, FIN))
        timer.start()

    def interrupt(self):
        os.kill(self.process.pid, signal.SIGINT)

    def close(self):
        self.sock.close()
        if self.process.poll() is None:
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(5)
        for file in self._files:
            file.close()
        shutil.rmtree(self._top, ignore_errors=True)


if __name__ == "__main__":
    # What a warm cell costs: the kernel's own time and the round trip.
    started = time.perf_counter()
    kernel = Kernel(plain="--plain" in sys.argv)
    print(f"start to READY: {1e3 * (time.perf_counter() - started):.1f} ms ({kernel.ready})")
    times = []
    for i in range(3000):
        at = time.perf_counter()
        kernel.run("1+1")
        times.append(time.perf_counter() - at)
    times.sort()
    print(f"`1+1`, round trip over the socketpair: p50 {1e6 * times[1500]:.0f} µs, "
          f"p99 {1e6 * times[2970]:.0f} µs")
    for code in ("%pwd", "%pwd", "!true", "import pandas as pd; df = pd.DataFrame({'a': range(1000)})", "df",
                 "df", "import matplotlib.pyplot as plt; plt.plot([1,2])", "plt.plot([1,2])"):
        at = time.perf_counter()
        result = kernel.run(code)
        print(f"{code[:50]:50} {1e3 * (time.perf_counter() - at):8.2f} ms  status {result.status} {result.message}")
    kernel.close()
