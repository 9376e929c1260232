#!/usr/bin/python3
"""Attacks that take long: what is left of a broker after gigabytes, and code that lies in wait for forked kernels."""
import importlib.util
import threading
import time
import unittest

import attack
import harness

MIB = 1 << 20
HUNT = """
import os, signal, time
seen = {int(p) for p in os.listdir('/proc') if p.isdigit()}
end = time.time() + 12
print('ready', flush=True)
while time.time() < end:
    for p in os.listdir('/proc'):
        if p.isdigit() and int(p) not in seen:
            try:
                os.kill(int(p), signal.SIG%s)
                seen.add(int(p))
                print('hit', p, flush=True)
            except OSError:
                pass
"""


class Gigabytes(attack.Attack):
    def test_output(self):
        """two gigabytes in one line, and as many writes of a byte as go into twenty seconds: the broker stays small"""
        before = self.client.rss()
        r = self.sh("head -c 2147483648 /dev/zero | tr '\\0' x", wait_s=50, timeout_s=300)
        while r.status == "running":
            r = self.client.tool("job", action="wait", job=r.job, wait_s=50)
        self.assertDone(r)
        r = self.py("import os, time\nend = time.time() + 20\nwhile time.time() < end:\n    os.write(1, b'x'); os.write(2, b'\\x1b')", wait_s=50)
        self.assertDone(r)
        self.assertEqual("ok\n", self.sh("echo ok").stdout)
        if not harness.SANITIZED:
            self.assertLess(self.client.rss() - before, 4 * MIB)
        self.audited("exec.end", exitReason="exit")

    def test_presented(self):
        """many outputs of one principal, presented side by side by many calls: the quota holds"""
        r = self.py("import os\nfor i in range(8): open(f'f{i}', 'wb').write(os.urandom(50_000_000))\nNone", wait_s=50)
        self.assertDone(r)
        results = []

        def present(i):
            results.append(self.client.tool("present_output", path=f"f{i % 8}", timeout=300))
        threads = [threading.Thread(target=present, args=(i,)) for i in range(24)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        done = sum(r.bytes for r in results if not r.is_error)
        self.assertLessEqual(done, 1 << 30)
        self.assertGreater(done, 500_000_000)
        for r in results:
            if r.is_error:
                self.assertRefused(r, "presented files may have")


@unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed for this Python")
class Hunters(attack.Attack):
    """Code kills or stops every process that enters its sandbox, a forked kernel's among them."""

    SERVE = ("--limit", "pool=1")

    def forked(self, session):
        r = self.py("'pandas' in __import__('sys').modules", session=session)
        return not r.is_error and r.results[0]["mime"]["text/plain"] == "True"

    def hunted(self, sig):
        end, there = time.monotonic() + 120, False
        while not there and time.monotonic() < end:  # until there is a template
            s = self.open()
            there = self.forked(s)
            self.client.tool("session", action="close", session=s)
            time.sleep(0.5)
        self.assertTrue(there)
        self.open()  # takes what is kept ready
        victim = self.open()
        self.put("hunt.py", HUNT % sig, session=victim)
        job = self.sh("exec python3 hunt.py", session=victim, wait_s=0)
        self.assertTrue(harness.until(lambda: "ready" in self.client.tool("job", action="read", job=job.job).text, 20, 0.2))
        call = self.client.start("run_code", language="python", code="1", session=victim, wait_s=5, timeout_s=4)
        time.sleep(0.3)
        for _ in range(2):
            other, began = self.open(), time.monotonic()
            self.assertDone(self.py("1", session=other))
            self.assertLess(time.monotonic() - began, 10 * harness.SLOW)
        self.client.finish(call)
        r = self.client.tool("session", action="close", session=victim)
        self.assertFast(r, 2)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            s = self.open()
            if self.forked(s):
                return
            self.client.tool("session", action="close", session=s)
            time.sleep(1)
        self.fail("no kernel is forked any more")

    def test_killed(self):
        """killed: other sessions get theirs, and later ones are forked as before"""
        self.hunted("KILL")

    def test_stopped(self):
        """stopped: the same"""
        self.hunted("STOP")


if __name__ == "__main__":
    harness.main()
