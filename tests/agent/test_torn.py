#!/usr/bin/python3
"""The real scb-agent over links that misbehave: a stream that tears, a proxy that delivers one byte
at a time, drops what nobody reads and admits one client; brokers that hang."""

import threading

from agentcase import *  # noqa: F403


class Proxy:
    """Between clients and an agent: one client at a time, bytes one by one, and what comes for
    nobody is thrown away. `far` is the agent's stream, or the path of its socket."""

    def __init__(self, folder, far, slow=True):
        self.path = os.path.join(folder, "proxy.sock")
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.path)
        self.listening.listen(8)
        self.far = far
        self.slow = slow
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def connect_far(self):
        if isinstance(self.far, socket.socket):
            return self.far
        far = socket.socket(socket.AF_UNIX)
        far.connect(self.far)
        return far

    def carry(self, source, target):
        data = source.recv(1 if self.slow else 65536)
        if not data:
            return False
        target.sendall(data)
        return True

    def serve(self, client):
        """Until the client goes. What it does not take holds up the stream."""
        far = self.connect_far()
        try:
            while not self.ended:
                for ready in select.select([client, far], [], [], 0.1)[0]:
                    other = far if ready is client else client
                    if not self.carry(ready, other):
                        return
        except OSError:
            pass
        finally:
            client.close()
            if far is not self.far:
                far.close()

    def run(self):
        while not self.ended:
            watched = [self.listening]
            if isinstance(self.far, socket.socket):
                watched.append(self.far)
            for ready in select.select(watched, [], [], 0.1)[0]:
                if ready is self.listening:
                    client, _ = self.listening.accept()
                    self.serve(client)
                    break  # what else was ready is long ago
                else:
                    self.far.recv(65536)  # nobody reads it

    def close(self):
        self.ended = True
        self.thread.join(5)
        self.listening.close()


class Finding(Client):
    """As a broker does on a link that tears: looks for the PROOF that answers its nonce, and seals
    its frames."""

    seal = b""
    reads_after_s = 0  # its CHALLENGE

    def __init__(self, way, key, seals=True):
        super().__init__(way, key)
        self.seals = seals

    def handshake(self):
        super().handshake()
        if self.seals:
            self.seal = hmac.new(self.key, b"scb frame v1" + self.nonce_b, hashlib.sha256).digest()[:8]
        return self

    def sealed(self, data):
        return data + self.seal

    def send(self, data):
        super().send(self.sealed(data))

    def send_bytes(self, data):
        super().send(data)

    def challenge(self, nonce_b=None):
        self.nonce_b = nonce_b = nonce_b or os.urandom(32)
        self.send(frame(FRAME_CHALLENGE, 0, SYNC + nonce_b))
        time.sleep(self.reads_after_s)
        head = struct.pack(">BBHII", 1, FRAME_PROOF, 0, 0, 64)
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            at = self._in.find(head)
            while at >= 0 and len(self._in) >= at + 76:
                payload = self._in[at + 12 : at + 76]
                if payload[32:] == self.agent_mac(nonce_b, payload[:32]):
                    self._in = self._in[at + 76 :]
                    return nonce_b, payload[:32], payload[32:]
                at = self._in.find(head, at + 1)
            if select.select([self.socket], [], [], 0.1)[0]:
                data = self.socket.recv(1 << 20)
                if not data:
                    raise LinkLost()
                self._in += data
        raise TimeoutError("no PROOF came")


class Stream(Case):
    agent_options = {"stream": True}

    def link(self):
        """A new broker on the same stream."""
        return Finding(self.agent.stream.dup(), self.agent.key).handshake()

    def tearDown(self):
        self.agent.process.kill()

    def test_one_broker(self):
        c = self.link()
        self.assertEqual(self.ok(c.run("echo hi")).stdout, b"hi\n")
        self.assertNotIn(b"adopt", c.hello.all("feature"))

    def test_brokers_one_after_the_other(self):
        c = self.link()
        c.start("sleep 0.3; echo done")
        job = c.job
        for _ in range(5):
            self.ok(c.call(OP_USAGE))  # what has not arrived is thrown away
            c = self.link()
            self.ok(c.call(OP_USAGE))
        self.assertEqual(self.ok(c.wait_job(job)).stdout, b"done\n")

    def test_a_frame_that_was_torn(self):
        """Cut at every place: what comes behind is a new link all the same."""
        c = self.link()
        whole = frame(FRAME_OPEN, 1, struct.pack(">H", OP_FILE_MKDIR) + tlv(TAG_PATH, "d"))
        for cut in range(1, len(c.sealed(whole))):
            c.send_bytes(c.sealed(whole)[:cut])
            c = self.link()
        self.assertFalse(os.path.exists(os.path.join(self.agent.workspace, "d")))
        self.ok(c.call(OP_USAGE))

    def test_a_long_frame_that_was_torn(self):
        c = self.link()
        stream = c.open(OP_FILE_WRITE, tlv(TAG_PATH, "f"))
        c.send_bytes(frame(FRAME_DATA, stream, bytes(200_000))[:100_000])
        c = self.link()
        self.ok(c.call(OP_USAGE))
        self.assertEqual(os.listdir(self.agent.workspace), [])

    def test_nonsense(self):
        for data in (b"\0" * 300, b"login: \r\n" * 100, SYNC * 10, os.urandom(400_000),
                     frame(FRAME_CHALLENGE, 0, SYNC + bytes(32))[:30],
                     frame(FRAME_CHALLENGE, 0, bytes(48)), frame(FRAME_HELLO)):
            self.agent.stream.sendall(data)
            c = self.link()
            self.ok(c.call(OP_USAGE))

    def test_a_challenge_that_nobody_confirms(self):
        c = Finding(self.agent.stream.dup(), self.agent.key)
        c.challenge()
        c = self.link()
        self.ok(c.call(OP_USAGE))
        c = Finding(self.agent.stream.dup(), bytes(32))
        nonce_b = os.urandom(32)
        c.send(frame(FRAME_CHALLENGE, 0, SYNC + nonce_b))
        c.send(frame(FRAME_CONFIRM, 0, bytes(32)))
        time.sleep(0.3)
        c = self.link()
        self.ok(c.call(OP_USAGE))
        self.assertIn(EVENT_AUTH_FAILED, [event for event, _ in c.events])

    def test_a_challenge_in_single_bytes(self):
        nonce_b = os.urandom(32)
        c = Finding(self.agent.stream.dup(), self.agent.key)
        self.agent.stream.sendall(b"junk")
        for byte in frame(FRAME_CHALLENGE, 0, SYNC + nonce_b):
            c.send(bytes([byte]))
            time.sleep(0.001)
        kind, _, _, payload = c.read_frame()
        self.assertEqual(kind, FRAME_PROOF)
        self.assertEqual(payload[32:], c.agent_mac(nonce_b, payload[:32]))

    def unread(self):
        """What nobody reads fills the stream: of a job, whose id this gives, that goes on."""
        c = self.link()
        c.give_credit = False
        c.start("head -c 30000000 /dev/zero; echo end > ended")
        ended = os.path.join(self.agent.workspace, "ended")
        for written in (lambda: os.path.exists(ended), lambda: len(c.socket.recv(1 << 20, socket.MSG_PEEK)) > 150_000):
            for n in range(60):  # answers of 256 KiB each, which nobody takes
                c.open(OP_JOB_READ, tlv(TAG_JOB, c.job), tlv(TAG_CHANNEL, CHANNEL_STDOUT),
                       tlv(TAG_OFFSET, 0), tlv(TAG_LENGTH, 1 << 40))
            self.assertTrue(until(written, 10))
        return c.job

    def test_a_broker_that_does_not_read_loses_its_link_and_the_job_goes_on(self):
        job = self.unread()
        c = self.link()
        self.assertEqual(self.ok(c.wait_job(job, inline=0)).stdout_total, 30_000_000)

    def test_a_proof_waits_for_room(self):
        job = self.unread()
        c = Finding(self.agent.stream.dup(), self.agent.key)
        c.reads_after_s = 0.5
        c.handshake()
        self.assertEqual(self.ok(c.wait_job(job, inline=0)).stdout_total, 30_000_000)


class StreamEnds(Case):
    agent_options = {"stream": True, "orphan_ms": 500}

    def tearDown(self):
        self.agent.process.kill()

    def test_the_agent_ends_by_its_lease(self):
        c = Finding(self.agent.stream.dup(), self.agent.key).handshake()
        self.ok(c.call(OP_USAGE))
        c.close()
        self.agent.stream.close()
        self.assertEqual(self.agent.process.wait(5), 0)


class Slow(Case):
    """One byte at a time, one client, nothing kept for nobody: over a listening socket."""

    slow = True
    seals = False  # each broker has a connection of its own

    def setUp(self):
        super().setUp()
        far = self.agent.stream if self.agent_options.get("stream") else self.agent.path
        self.proxy = Proxy(self.agent.folder, far, self.slow)
        self.addCleanup(self.proxy.close)

    def link(self):
        return Finding(self.proxy.path, self.agent.key, self.seals).handshake()

    def test_brokers_that_die_at_any_byte(self):
        c = self.link()
        self.ok(c.start_kernel(PYTHON_KERNEL))
        self.ok(c.run_cell("n = 0"))
        c.start("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done")
        job = c.job
        self.ok(c.call(OP_USAGE))
        tag = tlv(TAG_DELIVERY, os.urandom(16))
        request = frame(FRAME_OPEN, 99, struct.pack(">H", OP_JOB_START) +
                        tlv(TAG_JOB, bytes(16)) + tlv(TAG_JOB_KIND, JOB_KIND_CELL) +
                        tlv(TAG_KERNEL, "k") + tlv(TAG_CODE, "n += 1; print(n)") +
                        tlv(TAG_INLINE, 1000))
        change = frame(FRAME_OPEN, 100, struct.pack(">H", OP_FILE_MKDIR) + tlv(TAG_PATH, "d") + tag)
        both = c.sealed(request) + c.sealed(change)
        for cut in [*range(0, len(both), 23), *range(len(request) - 30, len(request) + 10, 5), len(both)]:
            c.send_bytes((c.sealed(request) + c.sealed(change))[:cut])
            c.close()
            c = self.link()
            self.ok(c.call(OP_USAGE))
        c.send_bytes(c.sealed(request) + c.sealed(change))
        c.open_streams.update({99: Answer(), 100: Answer()})
        self.assertEqual(self.ok(c.wait(99)).stdout, b"1\n")
        self.ok(c.wait(100))
        self.assertEqual(self.ok(c.wait_job(job)).stdout, b"1\n2\n3\n4\n5\n6\n7\n8\n")
        self.assertEqual(c.read(job, offset=4).data, b"3\n4\n5\n6\n7\n8\n")

    def tearDown(self):
        self.agent.process.kill()


class SlowStream(Slow):
    agent_options = {"stream": True}
    seals = True

    def test_a_torn_frame_with_the_beginning_of_a_challenge_for_its_end(self):
        """Cut at each of its last places: it is not handled, and the CHALLENGE is found."""
        code = frame(FRAME_OPEN, 99, struct.pack(">H", OP_JOB_START) + tlv(TAG_JOB, os.urandom(16)) +
                     tlv(TAG_JOB_KIND, JOB_KIND_COMMAND) + tlv(TAG_SHELL_TEXT, "echo ran >> ran; #" + "x" * 40))
        for missing in range(1, 45, 3):
            c = self.link()
            c.send_bytes(c.sealed(code)[:-missing])
            c.close()
        self.ok(self.link().call(OP_USAGE))
        self.assertFalse(os.path.exists(os.path.join(self.agent.workspace, "ran")))


class Hanging(Case):
    def test_a_stopped_broker_is_replaced(self):
        """Its process is stopped, with its link full and open; the newcomer is served."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            c = self.agent.client()
            c.give_credit = False
            c.start("head -c 10000000 /dev/zero; sleep 0.5; echo end")
            os.write(writing, c.job)
            c.open(OP_JOB_READ, tlv(TAG_JOB, c.job), tlv(TAG_CHANNEL, CHANNEL_STDOUT),
                   tlv(TAG_OFFSET, 0), tlv(TAG_LENGTH, 1 << 40))
            time.sleep(60)
            os._exit(0)
        try:
            job = os.read(reading, 16)
            os.kill(pid, signal.SIGSTOP)
            c = self.agent.client()
            began = time.monotonic()
            self.ok(c.call(OP_USAGE))
            self.assertLess(time.monotonic() - began, 1)
            self.assertEqual(self.ok(c.wait_job(job, inline=0)).stdout_total, 10_000_004)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


class NobodyListens(Case):
    def setUp(self):
        reading, writing = os.pipe()
        os.close(reading)
        self.agent = Agent(stderr=writing, lease_ms=300, orphan_ms=0)
        os.close(writing)
        self.addCleanup(self.agent.stop)

    def test_words_for_nobody_do_not_kill(self):
        self.agent.client()
        self.assertEqual(self.agent.process.wait(5), 0)  # it says why, and ends well


if __name__ == "__main__":
    tap.main()
