#!/usr/bin/python3
"""The real scb-agent, unconfined, driven over its link: handshake, frames, credit."""

import random

from agentcase import *  # noqa: F403


class Handshake(Case):
    def closed(self, client, seconds=2):
        with self.assertRaises((LinkLost, BrokenPipeError)):
            client.read_frame(seconds)

    def test_hello(self):
        c = self.agent.client()
        self.assertEqual(c.hello.protocol_min, 1)
        self.assertEqual(c.hello.protocol_max, 1)
        self.assertEqual(c.hello.bytes_("boot_id"), self.agent.boot_id)
        self.assertTrue(c.hello.text("build"))
        self.assertLess(c.hello.uptime_ms, 60000)

    def test_a_wrong_key_is_refused_and_told(self):
        good = self.agent.client()
        bad = self.agent.connect()
        bad.key = os.urandom(32)
        nonce_b, nonce_a, _ = bad.challenge()
        bad.send(frame(FRAME_CONFIRM, 0, bad.broker_mac(nonce_a, nonce_b)))
        self.closed(bad)
        good.step(2)
        self.assertEqual(good.events[0][0], EVENT_AUTH_FAILED)
        self.assertEqual(good.events[0][1].count, 1)
        self.assertEqual(self.ok(good.run("echo fine")).stdout, b"fine\n")

    def test_failures_without_a_link_are_told_later(self):
        bad = self.agent.connect()
        bad.send(frame(FRAME_CHALLENGE, 0, bytes(48)))
        self.closed(bad)
        good = self.agent.client()
        good.step(2)
        self.assertEqual(good.events[0][1].count, 1)

    def test_the_agents_own_proof_reflected_is_no_confirmation(self):
        c = self.agent.connect()
        _, _, mac = c.challenge()
        c.send(frame(FRAME_CONFIRM, 0, mac))
        self.closed(c)

    def test_the_proof_depends_on_both_nonces(self):
        a, b = self.agent.connect(), self.agent.connect()
        nonce = os.urandom(32)
        self.assertNotEqual(a.challenge(nonce)[1:], b.challenge(nonce)[1:])

    def test_nothing_before_the_key(self):
        for first in (frame(FRAME_OPEN, 1, struct.pack(">H", OP_USAGE)), frame(FRAME_PING),
                      b"GET / HTTP/1.1\r\n\r\n", frame(FRAME_CONFIRM, 0, bytes(32))):
            c = self.agent.connect()
            c.send(first)
            self.closed(c)
        c = self.agent.connect()
        c.challenge()
        c.send(frame(FRAME_OPEN, 1, struct.pack(">H", OP_USAGE)))
        self.closed(c)

    def test_a_long_frame_before_the_key_is_refused_by_its_header(self):
        c = self.agent.connect()
        c.send(struct.pack(">BBHII", 1, FRAME_CHALLENGE, 0, 0, 200000))
        self.closed(c)

    def test_a_peer_that_says_nothing_is_dropped_after_5_s(self):
        slow = self.agent.connect()
        began = time.monotonic()
        c = self.agent.client()
        self.ok(c.run("true"))
        self.closed(slow, 8)
        self.assertTrue(4.5 < time.monotonic() - began < 7)

    def test_many_silent_peers_do_not_keep_the_broker_away(self):
        for _ in range(20):
            self.agent.connect()
        began = time.monotonic()
        self.agent.client()
        self.assertLess(time.monotonic() - began, 2)

    def test_a_newcomer_takes_over_and_finds_the_job(self):
        old = self.agent.client()
        old.start("sleep 0.4; echo done")
        job = old.job
        new = self.agent.client()
        self.closed(old)
        self.assertEqual(self.ok(new.wait_job(job)).stdout, b"done\n")

    def test_a_handshake_in_single_bytes(self):
        c = self.agent.connect()
        nonce = os.urandom(32)
        for byte in frame(FRAME_CHALLENGE, 0, SYNC + nonce):
            c.send(bytes([byte]))
        kind, _, _, payload = c.read_frame()
        self.assertEqual(kind, FRAME_PROOF)
        self.assertEqual(payload[32:], c.agent_mac(nonce, payload[:32]))


class Protocol(Case):
    def breaks(self, data):
        c = self.agent.client()
        c.send(data)
        with self.assertRaises((LinkLost, BrokenPipeError, ConnectionResetError)):
            for _ in range(1000):
                c.read_frame(3)
        again = self.agent.client()
        self.ok(again.call(OP_USAGE))

    def test_what_breaks_protocol_loses_the_link_and_nothing_else(self):
        usage = struct.pack(">H", OP_USAGE)
        start = struct.pack(">H", OP_JOB_INPUT)
        for name, data in {
            "version": frame(FRAME_PING, version=2),
            "type": frame(99),
            "length": struct.pack(">BBHII", 1, FRAME_PING, 0, 0, PAYLOAD_MAX + 1),
            "stream 0": frame(FRAME_OPEN, 0, usage),
            "no operation": frame(FRAME_OPEN, 1, b"\0"),
            "a second challenge": frame(FRAME_CHALLENGE, 0, SYNC + bytes(32)),
            "an agent's frame": frame(FRAME_END, 1, b"\0\0"),
            "a kernel's frame": frame(FRAME_READY),
            "a long ping": frame(FRAME_PING, 0, bytes(65)),
            "short credit": frame(FRAME_CREDIT, 1, b"\0"),
            "text": b"\0" * 100,
        }.items():
            with self.subTest(name):
                self.breaks(data)

    def test_credit_beyond_all_sense(self):
        c = self.agent.client()
        c.start("sleep 5")
        with self.assertRaises((LinkLost, BrokenPipeError, ConnectionResetError)):
            for _ in range(10):
                c.send(frame(FRAME_CREDIT, 1, struct.pack(">I", 1 << 30)))
            c.read_frame(2)

    def test_data_beyond_the_window(self):
        c = self.agent.client()
        c.start("sleep 5", stdin=STDIN_OPEN)
        stream = c.open(OP_JOB_INPUT, tlv(TAG_JOB, c.job))
        with self.assertRaises((LinkLost, BrokenPipeError, ConnectionResetError)):
            for _ in range(3):  # 64 KiB of it go into the pipe, and come back as credit at most
                c.send(frame(FRAME_DATA, stream, bytes(200000)))
            c.read_frame(2)

    def test_a_stream_in_use_cannot_be_opened(self):
        c = self.agent.client()
        stream = c.start("sleep 5")
        c.send(frame(FRAME_OPEN, stream, struct.pack(">H", OP_USAGE)))
        with self.assertRaises(LinkLost):
            c.read_frame(2)

    def test_unknown_operation(self):
        self.status(self.agent.client().call(999), "WIRE_UNSUPPORTED")

    def test_unknown_tags_are_skipped(self):
        c = self.agent.client()
        self.assertEqual(self.ok(c.run("echo a", more=tlv(60000, b"x"))).stdout, b"a\n")

    def test_frames_of_streams_that_are_no_more(self):
        c = self.agent.client()
        for kind, payload in ((FRAME_DATA, b"x"), (FRAME_CREDIT, bytes(4)), (FRAME_RESET, b"\0\0"),
                              (FRAME_MSG, b"")):
            c.send(frame(kind, 77, payload))
        self.ok(c.call(OP_USAGE))

    def test_ping(self):
        c = self.agent.client()
        c.send(frame(FRAME_PING, 5, b"hello"))
        self.assertEqual(c.read_frame(), (FRAME_PONG, 0, 5, b"hello"))

    def test_broken_messages(self):
        c = self.agent.client()
        for op in (OP_JOB_START, OP_JOB_WAIT, OP_JOB_READ, OP_JOB_SIGNAL, OP_KERNEL_START,
                   OP_KERNEL_STOP, OP_LEASE):
            with self.subTest(op):
                self.status(c.call(op), "WIRE_BAD_REQUEST")
                self.status(c.call(op, b"\0\1\xff\xff\xff\xff"), "WIRE_BAD_REQUEST")

    def test_a_stream_reset_ends_the_waiting_not_the_job(self):
        c = self.agent.client()
        stream = c.start("sleep 0.3; echo x")
        c.send(frame(FRAME_RESET, stream, b"\0\0"))
        self.assertEqual(self.ok(c.wait_job(c.job)).stdout, b"x\n")

    def test_too_many_streams(self):
        c = self.agent.client()
        c.start("sleep 5")
        with self.assertRaises((LinkLost, BrokenPipeError, ConnectionResetError)):
            for _ in range(256):
                c.open(OP_JOB_WAIT, tlv(TAG_JOB, c.job))
            c.read_frame(2)
        self.ok(self.agent.client().call(OP_USAGE))

    def test_a_broker_that_does_not_read_loses_the_link(self):
        c = self.agent.client()
        pings = frame(FRAME_PING, 0, bytes(64)) * 1000
        with self.assertRaises((BrokenPipeError, ConnectionResetError, TimeoutError)):
            c.socket.settimeout(5)
            for _ in range(200):
                c.send(pings)
        self.assertLess(self.agent.memory_kib(), 16 * 1024)
        self.ok(self.agent.client().call(OP_USAGE))

    def test_random_frames(self):
        rng = random.Random(20261129)
        ops = [v for k, v in globals().items() if k.startswith("OP_") and k != "OP_SHUTDOWN"]
        tags = [v for k, v in globals().items() if k.startswith("TAG_")]
        for _ in range(60):
            c = self.agent.client()
            try:
                for _ in range(40):
                    body = b"".join(
                        tlv(rng.choice(tags), rng.randbytes(rng.choice((0, 1, 2, 8, 16, 40))))
                        for _ in range(rng.randrange(6)))
                    if rng.random() < 0.2:
                        body = body[: rng.randrange(len(body) + 1)]
                    kind = rng.choice((FRAME_OPEN, FRAME_OPEN, FRAME_OPEN, FRAME_DATA, FRAME_CREDIT,
                                       FRAME_RESET, FRAME_MSG, FRAME_PING, FRAME_EXPECT))
                    if kind == FRAME_OPEN:
                        body = struct.pack(">H", rng.choice(ops)) + body
                    c.send(frame(kind, rng.randrange(50), body, rng.choice((0, 1))))
            except (BrokenPipeError, ConnectionResetError):
                pass
            c.close()
        self.assertEqual(self.ok(self.agent.client().run("echo lives")).stdout, b"lives\n")


class Credit(Case):
    def test_data_stops_without_credit_and_others_go_on(self):
        c = self.agent.client()
        self.ok(c.run("head -c 1000000 /dev/urandom | tee copy", inline=0))
        c.give_credit = False
        job = c.job
        stream = c.open(OP_JOB_READ, tlv(TAG_JOB, job), tlv(TAG_CHANNEL, CHANNEL_STDOUT))
        answer = c.open_streams[stream]
        self.assertEqual(self.ok(c.run("echo meanwhile")).stdout, b"meanwhile\n")
        with self.assertRaises(TimeoutError):
            c.step(0.2)
        self.assertEqual(len(answer.data), WINDOW)
        c.send(frame(FRAME_CREDIT, stream, struct.pack(">I", 1000)))
        c.step()
        self.assertEqual(len(answer.data), WINDOW + 1000)
        c.send(frame(FRAME_CREDIT, stream, struct.pack(">I", 1 << 20)))
        self.ok(c.wait(stream))
        self.assertEqual(answer.data, open(f"{self.agent.workspace}/copy", "rb").read())

    def test_a_broker_that_reads_slowly_gets_everything(self):
        c = self.agent.client()
        self.ok(c.run("seq 1 600000", inline=0))
        stream = c.open(OP_JOB_READ, tlv(TAG_JOB, c.job), tlv(TAG_CHANNEL, CHANNEL_STDOUT))
        c.send(frame(FRAME_CREDIT, stream, struct.pack(">I", 1 << 29)))
        c.give_credit = False
        time.sleep(0.3)
        answer = c.wait(stream)
        self.assertEqual(answer.data, b"".join(b"%d\n" % i for i in range(1, 600001)))


if __name__ == "__main__":
    tap.main()
