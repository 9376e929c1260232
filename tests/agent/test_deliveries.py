#!/usr/bin/python3
"""The real scb-agent, unconfined: what is delivered again after a link was cut is done once."""

from agentcase import *  # noqa: F403

COUNTING = """
import signal, time
got = 0
def count(*_):
    global got
    got += 1
    open("count", "w").write(str(got))
signal.signal(signal.SIGUSR1, count)
open("ready", "w")
while True:
    time.sleep(0.01)
"""


def delivery(tag=None):
    return tlv(TAG_DELIVERY, tag or os.urandom(16))


class Deliveries(Case):
    def path(self, name):
        return os.path.join(self.agent.workspace, name)

    def text(self, name):
        try:
            with open(self.path(name)) as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def write(self, client, data, *parts, fin=True):
        stream = client.open(OP_FILE_WRITE, *parts)
        client.data(stream, data, fin=fin)
        return stream

    def cut(self, client):
        """Ends the link once the agent has taken all that was sent."""
        self.ok(client.call(OP_USAGE))
        client.close()

    # ---- files ----

    def test_a_repeated_change_is_answered_and_not_made(self):
        c = self.agent.client()
        for op, parts in {
            OP_FILE_MKDIR: [tlv(TAG_PATH, "d")],
            OP_FILE_MOVE: [tlv(TAG_PATH, "d"), tlv(TAG_TARGET, "e")],
            OP_FILE_DELETE: [tlv(TAG_PATH, "e"), tlv(TAG_RECURSIVE, 1)],
        }.items():
            tag = delivery()
            first = c.call(op, *parts, tag)
            self.ok(first)
            c = self.agent.client()
            again = c.call(op, *parts, tag)
            self.assertEqual((again.status, again.end.items), (first.status, first.end.items))
            self.assertNotEqual(c.call(op, *parts, delivery()).status, WIRE_OK)

    def test_a_failure_is_remembered_too(self):
        c = self.agent.client()
        os.mkdir(self.path("d"))
        tag = delivery()
        self.status(c.call(OP_FILE_MKDIR, tlv(TAG_PATH, "d"), tag), "WIRE_EXISTS")
        os.rmdir(self.path("d"))
        self.status(c.call(OP_FILE_MKDIR, tlv(TAG_PATH, "d"), tag), "WIRE_EXISTS")
        self.assertFalse(os.path.exists(self.path("d")))

    def test_another_operation_with_the_tag_is_another_delivery(self):
        c = self.agent.client()
        tag = delivery()
        self.ok(c.call(OP_FILE_MKDIR, tlv(TAG_PATH, "d"), tag))
        self.ok(c.call(OP_FILE_DELETE, tlv(TAG_PATH, "d"), tag))
        self.assertFalse(os.path.exists(self.path("d")))

    def test_reading_knows_no_deliveries(self):
        c = self.agent.client()
        tag = delivery()
        self.ok(c.wait(self.write(c, b"one", tlv(TAG_PATH, "f"))))
        self.assertEqual(c.call(OP_FILE_READ, tlv(TAG_PATH, "f"), tag).data, b"one")
        self.ok(c.wait(self.write(c, b"two", tlv(TAG_PATH, "f"))))
        self.assertEqual(c.call(OP_FILE_READ, tlv(TAG_PATH, "f"), tag).data, b"two")

    def test_a_replaced_file_that_was_cut(self):
        c = self.agent.client()
        with open(self.path("f"), "w") as f:
            f.write("old")
        tag = delivery()
        self.write(c, b"new" * 1000, tlv(TAG_PATH, "f"), tag, fin=False)
        self.cut(c)
        c = self.agent.client()
        self.assertEqual(self.text("f"), "old")
        self.assertEqual(os.listdir(self.agent.workspace), ["f"])
        self.ok(c.wait(self.write(c, b"new" * 1000, tlv(TAG_PATH, "f"), tag)))
        self.assertEqual(self.text("f"), "new" * 1000)

    def test_an_appending_that_was_cut_leaves_nothing_and_is_made_once(self):
        c = self.agent.client()
        with open(self.path("f"), "w") as f:
            f.write("begin")
        for name in ("f", "new"):
            tag = delivery()
            parts = [tlv(TAG_PATH, name), tlv(TAG_APPEND, 1), tag]
            self.write(c, b"+", *parts, fin=False)
            self.assertTrue(until(lambda: self.text(name).endswith("+")))
            self.cut(c)
            c = self.agent.client()
            if name == "f":
                self.assertEqual(self.text("f"), "begin")
            else:
                self.assertFalse(os.path.exists(self.path("new")))
            for _ in range(2):
                self.ok(c.wait(self.write(c, b"+++", *parts)))
            self.assertEqual(self.text(name), "begin+++" if name == "f" else "+++")

    def test_an_appending_that_was_cut_beside_another_writer(self):
        c = self.agent.client()
        tag = delivery()
        parts = [tlv(TAG_PATH, "f"), tlv(TAG_APPEND, 1), tag]
        self.write(c, b"ab", *parts, fin=False)
        self.assertTrue(until(lambda: self.text("f") == "ab"))
        with open(self.path("f"), "a") as f:
            f.write("|")
        self.cut(c)
        c = self.agent.client()
        self.write(c, b"abc", *parts, fin=False)  # cut again, and all of it taken back
        self.assertTrue(until(lambda: self.text("f") == "ab|c"))
        self.cut(c)
        c = self.agent.client()
        self.assertEqual(self.text("f"), "ab|")
        self.ok(c.wait(self.write(c, b"abcd", *parts)))
        self.assertEqual(self.text("f"), "ab|cd")

    def test_a_writing_at_an_offset_that_was_cut(self):
        c = self.agent.client()
        with open(self.path("f"), "w") as f:
            f.write("0123456789")
        tag = delivery()
        parts = [tlv(TAG_PATH, "f"), tlv(TAG_OFFSET, 8), tag]
        self.write(c, b"abcd", *parts, fin=False)
        self.assertTrue(until(lambda: self.text("f") == "01234567abcd"))
        self.cut(c)
        c = self.agent.client()
        self.assertEqual(self.text("f"), "01234567ab")
        self.ok(c.wait(self.write(c, b"abcd", *parts)))
        self.assertEqual(self.text("f"), "01234567abcd")

    def test_a_tree_goes_on_being_deleted_without_the_link(self):
        c = self.agent.client()
        total = 1
        for d in range(20):
            os.makedirs(self.path(f"t/{d}"))
            total += 1
            for f in range(300):
                os.mknod(self.path(f"t/{d}/{f}"))
                total += 1
        tag = delivery()
        c.open(OP_FILE_DELETE, tlv(TAG_PATH, "t"), tlv(TAG_RECURSIVE, 1), tag)
        c.close()
        c = self.agent.client()
        self.assertEqual(self.ok(c.call(OP_RECALL, tag)).count, total)
        self.assertFalse(os.path.exists(self.path("t")))
        again = c.call(OP_FILE_DELETE, tlv(TAG_PATH, "t"), tlv(TAG_RECURSIVE, 1), tag)
        self.assertEqual(self.ok(again).count, total)

    # ---- recalling ----

    def test_recalling(self):
        c = self.agent.client()
        tag = delivery()
        self.status(c.call(OP_RECALL, tag), "WIRE_NOT_FOUND")
        self.ok(c.wait(self.write(c, b"text", tlv(TAG_PATH, "f"), tag)))
        c = self.agent.client()
        self.assertEqual(self.ok(c.call(OP_RECALL, tag)).size, 4)
        self.status(c.call(OP_RECALL, delivery()), "WIRE_NOT_FOUND")
        self.status(c.call(OP_RECALL), "WIRE_BAD_REQUEST")
        self.status(c.call(OP_RECALL, delivery(b"short")), "WIRE_BAD_REQUEST")
        self.status(c.call(OP_FILE_MKDIR, tlv(TAG_PATH, "x"), delivery(b"short")),
                    "WIRE_BAD_REQUEST")
        self.assertFalse(os.path.exists(self.path("x")))

    def test_what_was_cut_off_is_not_recalled(self):
        c = self.agent.client()
        tag = delivery()
        self.write(c, b"text", tlv(TAG_PATH, "f"), tag, fin=False)
        self.cut(c)
        self.status(self.agent.client().call(OP_RECALL, tag), "WIRE_NOT_FOUND")

    def test_the_newest_256_are_remembered(self):
        c = self.agent.client()
        tags = [delivery() for _ in range(257)]
        for n, tag in enumerate(tags):
            self.ok(c.call(OP_FILE_MKDIR, tlv(TAG_PATH, str(n)), tag))
        self.status(c.call(OP_RECALL, tags[0]), "WIRE_NOT_FOUND")
        self.ok(c.call(OP_RECALL, tags[1]))
        self.ok(c.call(OP_RECALL, tags[256]))

    # ---- jobs ----

    def test_a_signal_is_sent_once(self):
        c = self.agent.client()
        c.start(argv=["/usr/bin/python3", "-c", COUNTING])
        job = c.job
        self.assertTrue(until(lambda: os.path.exists(self.path("ready"))))
        tag = delivery()
        for _ in range(3):
            c = self.agent.client()
            self.ok(c.call(OP_JOB_SIGNAL, tlv(TAG_JOB, job), tlv(TAG_SIGNAL, signal.SIGUSR1), tag))
            time.sleep(0.1)
        self.assertEqual(self.text("count"), "1")
        self.ok(c.call(OP_JOB_SIGNAL, tlv(TAG_JOB, job), tlv(TAG_SIGNAL, signal.SIGUSR1),
                       delivery()))
        self.assertTrue(until(lambda: self.text("count") == "2"))

    def feed(self, job, tag, data, cut, close=True):
        """One delivery of all of data; the link is cut where the agent has taken `cut` bytes."""
        c = self.agent.client()
        stream = c.open(OP_JOB_INPUT, tlv(TAG_JOB, job), tlv(TAG_CLOSE, close), tag)
        if cut is None:
            c.data(stream, data, fin=True)
            return c.wait(stream)
        c.data(stream, data[:cut])
        self.cut(c)
        return None

    def test_input_that_was_cut_goes_on_where_it_was(self):
        data = os.urandom(300_000)
        c = self.agent.client()
        c.start("cat > got; sleep 0.2", stdin=STDIN_OPEN)
        job, tag = c.job, delivery()
        for cut in (10, 5, 70_000, 250_000):
            self.feed(job, tag, data, cut)
        for _ in range(2):
            self.assertEqual(self.ok(self.feed(job, tag, data, None)).length, len(data))
        self.ok(self.agent.client().wait_job(job))
        with open(self.path("got"), "rb") as f:
            self.assertEqual(f.read(), data)

    def test_input_that_is_not_read_yet_is_given_once(self):
        data = os.urandom(200_000)  # more than a pipe holds
        c = self.agent.client()
        c.start("sleep 0.5; cat > got", stdin=STDIN_OPEN)
        job, tag = c.job, delivery()
        self.feed(job, tag, data, 150_000)
        self.assertEqual(self.ok(self.feed(job, tag, data, None)).length, len(data))
        self.ok(self.agent.client().wait_job(job))
        with open(self.path("got"), "rb") as f:
            self.assertEqual(f.read(), data)

    def test_input_to_a_program_that_ended_after_the_cut(self):
        c = self.agent.client()
        c.start("head -c 3 > got", stdin=STDIN_OPEN)
        job, tag = c.job, delivery()
        self.feed(job, tag, b"abcdef", 3)
        self.ok(self.agent.client().wait_job(job))
        self.assertEqual(self.status(self.feed(job, tag, b"abcdef", None), "WIRE_GONE").length, 3)

    def test_input_of_a_cell(self):
        c = self.agent.client()
        self.ok(c.start_kernel(PYTHON_KERNEL))
        c.cell("import sys; print(sys.stdin.read())", stdin=STDIN_OPEN)
        job, tag = c.job, delivery()
        self.feed(job, tag, b"one two three", 7)
        self.feed(job, tag, b"one two three", 3)
        self.assertEqual(self.ok(self.feed(job, tag, b"one two three", None)).length, 13)
        c = self.agent.client()
        self.assertEqual(self.ok(c.wait_job(job)).stdout, b"one two three\n")

    # ---- kernels ----

    def test_an_interrupt_is_sent_once(self):
        c = self.agent.client()
        self.ok(c.start_kernel(PYTHON_KERNEL))
        c.cell("import time\nn = 0\nopen('ready', 'w')\n"
               "while n < 2:\n"
               "    try:\n        time.sleep(0.01)\n"
               "    except KeyboardInterrupt:\n"
               "        n += 1; open('count', 'w').write(str(n))")
        self.assertTrue(until(lambda: os.path.exists(self.path("ready"))))
        tag = delivery()
        for _ in range(3):
            c = self.agent.client()
            self.ok(c.call(OP_KERNEL_INTERRUPT, tlv(TAG_KERNEL, "k"), tag))
            time.sleep(0.1)
        self.assertEqual(self.text("count"), "1")

    def test_a_kernel_is_stopped_once(self):
        c = self.agent.client()
        self.ok(c.start_kernel(PYTHON_KERNEL))
        self.ok(c.run_cell("x = 1"))
        tag = delivery()
        c.open(OP_KERNEL_STOP, tlv(TAG_KERNEL, "k"), tag)
        self.cut(c)
        c = self.agent.client()
        self.ok(c.call(OP_KERNEL_STOP, tlv(TAG_KERNEL, "k"), tag))
        self.ok(c.run_cell("x = 2"))
        self.ok(c.call(OP_KERNEL_STOP, tlv(TAG_KERNEL, "k"), tag))
        self.assertEqual(self.ok(c.run_cell("print(x)")).stdout, b"2\n")


if __name__ == "__main__":
    tap.main()
