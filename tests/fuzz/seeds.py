#!/usr/bin/python3
"""seeds.py FOLDER: writes the inputs that fuzzing begins with, FOLDER/TARGET/…, from what stands here.

Committed findings (tests/fuzz/found/TARGET/…) are copied beside them, so that they are tried first
in every later run.
"""
import hashlib
import json
import os
import shutil
import struct
import sys

CHALLENGE, PROOF, CONFIRM, HELLO, OPEN, MSG, DATA, CREDIT, END, RESET, PING, PONG, EVENT, CELL, DISPLAY, DONE, READY, INTERRUPT, FORK, FORKED = \
    range(1, 21)


def tlv(tag, value):
    if isinstance(value, int):
        value = value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
    elif isinstance(value, str):
        value = value.encode()
    return struct.pack(">HI", tag, len(value)) + value


def frame(kind, stream=0, payload=b"", flags=0):
    return struct.pack(">BBHII", 1, kind, flags, stream, len(payload)) + payload


def audit_log(*members, seq=1):
    """Lines that are chained."""
    lines, prev = [], "0" * 64
    for i, rest in enumerate(members):
        line = (f'{{"ts":"2026-11-30T08:15:00.000000Z","seq":{seq + i},"prev":"{prev}","run":"0a1b2c3d",{rest}}}').encode()
        prev = hashlib.sha256(line).hexdigest()
        lines.append(line)
    return b"\n".join(lines) + b"\n"


def short_tlv(tag, value):
    """As fuzz_frame() reads it."""
    if isinstance(value, int):
        value = value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
    elif isinstance(value, str):
        value = value.encode()
    return struct.pack(">BH", tag, len(value)) + value


def short(kind, stream, *tlvs, fin=False, code=None, raw=None):
    payload = raw if raw is not None else (b"" if code is None else bytes([code])) + b"".join(tlvs)
    bits = (kind - 1) | (0x40 if fin else 0) | (0 if raw is not None else 0x80)
    return struct.pack(">BBH", bits, stream, len(payload)) + payload


STATUS = [(96, 3), (97, 1), (98, 1), (99, 7), (100, "disk_full"), (101, 1700000000000000), (102, 1234), (104, 5), (105, "hello"),
          (106, ""), (107, 0)]
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def rpc(method, params=None, id=1):
    message = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        message["id"] = id
    if params is not None:
        message["params"] = params
    return json.dumps(message).encode() + b"\n"


def front(*frames):
    """For fuzz-front: with a hello before them; each type, be16 length, payload."""
    return b"\1" + b"".join(struct.pack(">BH", kind, len(payload)) + payload for kind, payload in frames)


MESSAGE = struct.pack(">QBI", 1, 0, 0)  # number, flags, age
FRONT_HELLO = {"protocol": [1, 1], "build": "0.0.1", "kind": "serve", "front": "00" * 16}


def call(tool, **arguments):
    return rpc("tools/call", {"name": tool, "arguments": arguments})


# A client that can be asked for everything, and what it answers; @S and @I: see fuzz-offer.c.
CAN = {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}, "roots": {}}}
FORM = {"action": "accept", "content": {"name": "x", "color": "y"}}


def ask(tool, state=None, **answers):
    brought = {"requestState": state} if state else {}
    return rpc("tools/call", {"name": tool, "_meta": CAN, "inputResponses": answers, **brought})


def answer(result):
    return json.dumps({"jsonrpc": "2.0", "id": "@I", "result": result}).encode() + b"\n"


SEEDS = {
    "wire": [
        frame(PING, 0, b"12345678"),
        frame(OPEN, 1, struct.pack(">H", 1) + tlv(64, b"0123456789abcdef") + tlv(65, 1) + tlv(67, "echo hi")),
        frame(DATA, 3, b"x" * 100, 1) + frame(END, 3, struct.pack(">H", 0) + tlv(22, 100)),
        frame(CREDIT, 1, struct.pack(">I", 65536)),
        frame(CELL, 0, tlv(75, "1")) + frame(INTERRUPT) + frame(FORK, 0, tlv(26, "k-2")) + frame(FORKED, 0, tlv(100, "shared_pipes:1")),
        tlv(1, 1) + tlv(2, 1) + tlv(3, "0.1.0") + tlv(4, bytes(16)),
        struct.pack(">BBHII", 1, 7, 0, 1, 300000),
        struct.pack(">HI", 1, 0xFFFFFFFF),
    ],
    "shape": [
        b"\x10\x00\x00\x10\x00\x05hello world\n",
        b"\x00\x40\x01\x00\x00\x20" + "é漢字🙂".encode() * 10,
        b"\x00\x10\x00\x00\x00\x00" + b"".join(b"%d of 100\r" % i for i in range(100)),
        b"\x01\x00\x00\x00\x00\x00\x1b[31mred\x1b[0m \x1b]0;title\x07 ab\b\bcd\x00\xff\xfe\r\n",
    ],
    "link": [
        b"\x00" + frame(PROOF, 0, bytes(64)) + frame(HELLO, 0, tlv(1, 1)),
        b"\x00" + frame(PING, 0, b"x"),
        b"\x01\xff" + short(MSG, 1, short_tlv(96, 3)) + short(END, 1, code=0),
        b"\x01\xff" + short(DATA, 1, raw=b"bytes", fin=True) + short(END, 1, code=0),
        b"\x01\x00" + short(CREDIT, 1, raw=struct.pack(">I", 65536)) + short(CREDIT, 2, raw=struct.pack(">I", 2**31)),
        b"\x01\xff" + short(RESET, 3, raw=b"\x00\x14") + short(PING, 0, raw=b"hi") + short(EVENT, 0, short_tlv(29, 1), code=1),
    ],
    "agent": [
        b"\x00" + frame(CHALLENGE, 0, bytes(48)),
        b"\x01" + short(OPEN, 1, short_tlv(18, "a/b.txt"), short_tlv(24, 0o644), short_tlv(37, 1), code=35)
        + short(DATA, 1, raw=b"hello\nneedle\n", fin=True) + short(OPEN, 2, short_tlv(18, "a/b.txt"), short_tlv(40, 1), code=34)
        + short(OPEN, 3, short_tlv(18, "a"), short_tlv(31, "needle"), short_tlv(28, 10), code=39)
        + short(OPEN, 4, short_tlv(18, "."), short_tlv(27, 3), short_tlv(28, 10), code=33)
        + short(OPEN, 5, short_tlv(18, "a/b.txt"), code=40) + short(OPEN, 6, short_tlv(18, "a/b.txt"), short_tlv(19, "c"), code=37)
        + short(OPEN, 7, short_tlv(18, "c"), code=32) + short(OPEN, 8, short_tlv(18, "a"), short_tlv(39, 1), code=38),
        b"\x01" + b"".join(short(OPEN, op, short_tlv(18, "../../etc/passwd"), code=op) for op in range(32, 41)),
        b"\x01" + short(OPEN, 1, short_tlv(18, "x/y/z"), short_tlv(37, 1), code=36) + short(RESET, 1, raw=b"\x00\x00")
        + short(CREDIT, 2, raw=b"\x00\x01\x00\x00") + short(PING, 0, raw=b"12345678"),
    ],
    "mcp": [b"\xff" + lines for lines in (
        rpc("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}})
        + rpc("notifications/initialized", id=None) + rpc("ping", id="a") + rpc("tools/list", {"cursor": ""}),
        rpc("server/discover", {"_meta": META}) + rpc("tools/list", {"_meta": META}) + rpc("resources/list", {"_meta": META}),
        rpc("resources/read", {"uri": "resource://scb/o-0000/x", "_meta": META}) + rpc("resources/read", {"uri": "x"}),
        rpc("prompts/list") + rpc("resources/templates/list") + rpc("logging/setLevel", {"level": "info"}),
        call("run_command", command="echo", env={"A": "b"}, timeout_s=1, wait_s=0.5, stdin="x", idempotency_key="k"),
        call("run_command", argv=["a", "b"], cwd="x", stdin_open=True) + call("run_code", language="python", code="1", kernel="k"),
        call("job", action="read", job="j-0", stream="both", offset=1, length=2, encoding="base64"),
        call("job", action="signal", job="j-0", signal="TERM") + call("job", action="input", job="j-0", input="x", close=True),
        call("files", action="write", path="a", content="eA==", encoding="base64", append=True, offset=3),
        call("files", action="edit", path="a", old_text="x", new_text="y", all=True) + call("files", action="list", depth=2),
        call("present_output", path="a", title="t") + call("session", action="open") + call("session", action="close", session="s-0"),
        rpc("notifications/cancelled", {"requestId": 1}, id=None) + rpc("tools/call", {"name": "x", "_meta": {"progressToken": 1}}),
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}\r\n\r\n[[[[]]]]\n{"a":\xff}\n' + b"[" * 100 + b"\n",
    )],
    "offer": [
        ask("test_input_required_result_multi_round") + ask("test_input_required_result_multi_round", "@S", step1=FORM)
        + ask("test_input_required_result_multi_round", "@S", step2=FORM),
        ask("test_input_required_result_multiple_inputs", "@S", user_name=FORM, greeting={"role": "assistant"}, client_roots={"roots": []}),
        ask("test_input_required_result_capabilities") + ask("test_input_required_result_request_state", "@S", confirm=7),
        rpc("initialize", {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}, "sampling": {}}, "clientInfo": {}})
        + rpc("tools/call", {"name": "test_input_required_result_multi_round"}) + answer(FORM) + answer(FORM),
        rpc("tools/call", {"name": "test_sampling", "arguments": {"prompt": "x"}}) + answer({"role": "assistant"}),
        rpc("tools/call", {"name": "test_elicitation", "arguments": {"message": "x"}}) + rpc("notifications/cancelled", {"requestId": 1}, id=None),
        rpc("tools/call", {"name": "test_tool_with_progress", "_meta": {"progressToken": 1}}) + rpc("tools/call", {"name": "test_tool_with_logging"}),
        rpc("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}}) + rpc("prompts/list"),
        rpc("prompts/get", {"name": "test_input_required_result_prompt", "_meta": CAN}),
        rpc("completion/complete", {"ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"}, "argument": {"name": "arg1", "value": "t"}}),
        rpc("completion/complete", {"ref": {"type": "ref/resource", "uri": "test://template/{id}/data"}, "argument": {"name": "id", "value": "1"}}),
        rpc("resources/read", {"uri": "test://template/7/data"}) + rpc("resources/list") + rpc("logging/setLevel", {"level": "debug"}),
    ],
    "docker": [
        b"\x01" + b"".join(struct.pack(">BxxxI", kind, len(text)) + text for kind, text in (
            (1, b"abc"), (2, b"!?"), (1, b""), (1, b"d" * 300))),
        b"\x07\x03\0\0\0\0\0\0\1x",
    ],
    "http": [bytes([how]) + message for how in (0, 20) for message in (
        b"GET /mcp HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi",
    )] + [bytes([how | 1]) + message for how in (0, 20) for message in (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
    )],
    "web": [b"\x01a=b; scb-1=1800000000." + b"0" * 64 + b"; c", b"\x01scb-1=.;scb-1", b"\0/?token=a%2Bb&show=d-0",
            b"\0/outputs/o-" + b"0" * 32 + b"/a%20b.txt?for=uid%3A0&until=1800000000&key=" + b"0" * 32],
    "front": [front(*frames) for frames in (
        [(2, MESSAGE + rpc("ping").strip())],
        [(2, MESSAGE + call("run_code", language="python", code="1").strip()), (3, b"")],
        [(2, MESSAGE + rpc("notifications/cancelled", {"requestId": 1}, id=None).strip()), (2, b"\0" * 7 + b"\2\2" + b"\0" * 4)],
        [(0, b"\0\0\0\5\2"), (0, b"\0\0\0\1\3")],
    )] + [b"\0" + front(*frames)[1:] for frames in (
        [(1, json.dumps(FRONT_HELLO).encode()), (2, MESSAGE + rpc("tools/list").strip())],
        [(1, json.dumps({**FRONT_HELLO, "kind": "control"}).encode()), (4, b'{"op":"status"}'), (4, b'{"op":"sessions.close","all":true}')],
        [(1, json.dumps({**FRONT_HELLO, "kind": "control"}).encode()), (4, b'{"op":"leave","build":"9.9.9"}')],
        [(1, json.dumps({**FRONT_HELLO, "limits": ["memory=2G"], "mounts": [{"name": "a", "source": "/a"}]}).encode())],
    )] + [b"\0\0\0\x44" + b'B{"build":"1","pid":1,"error":"conflict","text":"x","retry":true}xx'],
    "redact": [
        b"\x00\x04s3cr3t-t0ken" + bytes(b for i in range(60) for b in (ord(" "), 0xF0, i)),
        b"\x01\x00abcdefgh\x02efghijkl99" + bytes(b for i in range(0, 250, 3) for b in (0xF3, i, i % 5, i % 13)),
        b"\x02\x00aaaaaaaa\x01aaaabaaab\x06a/b+c d\"e'f\\g\n" + b"aaaaaaaaaaab" * 9 + bytes((0xF1, 9, 2, 0xF2, 30, 8)) * 20,
    ],
    "audit": [
        audit_log('"event":"broker.start","detail":"0.1.0","owasp":["ASI08","T8"]', '"event":"exec.start","tool":"run_code","job":"j-1"',
                  '"event":"exec.end","job":"j-1","exitCode":3,"exitReason":"timeout","durationMs":1.500,"detail":"a\\"b\\u0001"'),
        audit_log('"event":"audit.rotate","path":"audit-000000000007.jsonl","lastSeq":7,"lastHash":"' + "0" * 64 + '"',
                  '"event":"audit.drop","lastSeq":7,"lastHash":"' + "0" * 64 + '"', '"event":"audit.recover","torn":"{","tornBytes":1', seq=8),
        audit_log('"event":"audit.gap","detail":"x"', '"event":"tool.call","policyDecisions":[{"rule":"r","decision":"deny"}]'),
    ],
    "exec": [
        b"\x01" + b"".join(tlv(t, v) for t, v in STATUS),
        b"\x00\xff" + b"".join(short(END, i, *[short_tlv(t, v) for t, v in STATUS], code=0) for i in range(1, 22)),
        b"\x00\xff" + b"".join(short(MSG, i, short_tlv(96, 3)) for i in range(1, 22)),
        b"\x00\xff" + b"".join(short(END, i, short_tlv(74, "python-2"), short_tlv(128, 1), short_tlv(100, "shared_file:/a"), code=0)
                               for i in range(1, 24)),
        b"\x00\xff" + b"".join(short(DATA, i, raw=b"bytes of a file", fin=True) + short(END, i, short_tlv(22, 15), code=0)
                               for i in range(1, 22)),
        b"\x00\xff" + b"".join(short(END, i, short_tlv(16, "no such thing"), code=i % 21) for i in range(1, 22)),
    ],
    "policy": [bytes([len(path)]) + path.encode() + text.encode() for path, text in (
        ("tools.allow[1]", '{"version": 1, "tools": {"allow": ["run_code.python", "files"], "images": true}}'),
        ('principals."uid:1".limits.pids', '{"version": 1, "limits": {"memory": "512M", "sessions": 3}, "rate": {"callsPerMinute": 5,'
         ' "burst": 2}, "principals": {"uid:1": {"limits": {"pids": 20}, "tools": {}}, "*": {"outputs": {"allow": true}}}}'),
        ("secrets.b.exec[0]", '{"version": 1, "secrets": {"A": {"source": "env:X", "exposure": "session"}, "b": {"exec": ["/bin/p",'
         ' "x"], "variable": "V"}, "c": {"source": "file:/etc/c"}}, "mounts": [{"path": "/a", "name": "n"}]}'),
        ("require", '{"version": 1, "require": {"isolationLevel": "microvm", "enforced": ["pids"]}, "outputs": {"quota": "2M",'
         ' "maxBytes": 7}, "audit": {"fsync": "interval", "intervalMs": 50, "maxBytes": "1M", "keep": 2}}'),
        ('"\\u00e9"', '{"version": 2, "\\u00e9": {}}'))],
}


def main(folder):
    here = os.path.dirname(os.path.abspath(__file__))
    for target, inputs in SEEDS.items():
        where = os.path.join(folder, target)
        shutil.rmtree(where, True)
        os.makedirs(where)
        for i, data in enumerate(inputs):
            with open(os.path.join(where, f"seed-{i}"), "wb") as f:
                f.write(data)
        found = os.path.join(here, "found", target)
        for name in sorted(os.listdir(found)) if os.path.isdir(found) else ():
            shutil.copy(os.path.join(found, name), where)


if __name__ == "__main__":
    main(sys.argv[1])
