"""A kernel of forty lines that speaks the frames (docs/agent-protocol.md, "Kernels"): a cell's code
is a word and its argument. It does what the real kernels never do, too."""

import os
import signal
import struct
import sys
import time

FD = int(os.environ["SCB_KERNEL_FD"])
DATA, CELL, DISPLAY, DONE, READY, EXPECT = 7, 14, 15, 16, 17, 22


def tlv(tag, value):
    return struct.pack(">HI", tag, len(value)) + value


def send(kind, *parts):
    payload = b"".join(parts)
    os.write(FD, struct.pack(">BBHII", 1, kind, 0, 0, len(payload)) + payload)


def read_exactly(n):
    data = b""
    while len(data) < n:
        part = os.read(FD, n - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


def read():
    _, kind, flags, _, n = struct.unpack(">BBHII", read_exactly(12))
    return kind, flags, read_exactly(n)


def done(status=0, *more):
    send(DONE, tlv(144, bytes([status])), *more)


signal.signal(signal.SIGINT, signal.SIG_IGN)  # the stubborn kind
time.sleep(float(os.environ.get("START_DELAY", "0")))
if os.environ.get("START_EXIT"):
    os._exit(int(os.environ["START_EXIT"]))
features = [tlv(6, name.encode()) for name in os.environ.get("FEATURES", "").split()]
send(READY, tlv(132, b"test"), tlv(133, b"plain"), tlv(134, b"1"), *features)
expected = 0
while True:
    kind, _, payload = read()
    expected += kind == EXPECT
    if kind != CELL:
        continue
    n = struct.unpack(">I", payload[2:6])[0]
    word, _, argument = payload[6 : 6 + n].decode().partition(" ")
    if word == "say":
        os.write(1, argument.encode())
        done()
    elif word == "expected":  # how often, so far
        os.write(1, b"%d" % expected)
        done()
    elif word == "late":  # output and DONE as close together as can be
        os.write(1, b"x" * 60000)
        done()
        os.write(2, b"after")
    elif word == "spin":
        while True:
            time.sleep(1)
    elif word == "show":
        for i in range(int(argument)):
            send(DISPLAY, tlv(147, b"\1"), tlv(145, b"text/plain"), tlv(146, b"%d" % i))
        done()
    elif word == "big":
        for i in range(int(argument)):
            send(DISPLAY, tlv(147, b"\1"), tlv(145, b"a/b"), tlv(146, b"z" * 200000))
        done()
    elif word == "raw":
        os.write(FD, bytes.fromhex(argument))
        time.sleep(30)
    elif word == "twice":
        done()
        done()
    elif word == "background":
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
            os._exit(0)
        done()
    elif word == "last":  # the end of the cell and of the kernel at once
        done()
        os._exit(0)
    elif word == "echo":
        data, flags = b"", 0
        while not flags & 1:
            _, flags, part = read()
            data += part
        os.write(1, data)
        done()
    else:
        done(1, tlv(149, b"E" * 5000), tlv(150, b"m" * 200000), tlv(151, b"t"))
