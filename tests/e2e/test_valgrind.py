#!/usr/bin/python3
"""The broker under valgrind: no memory that is lost or used wrongly, no descriptor left open."""
import os
import re
import shutil
import unittest

import harness
import tap
from harness import Place


class Valgrind(unittest.TestCase):
    def test_short_run(self):
        """a session's life: code, a command, files, presenting, bad input, a cancelled call"""
        place = Place()
        log = os.path.join(place.folder("log"), "valgrind")
        place.prefix += ["valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite,indirect", "--track-fds=yes",
                         "--error-exitcode=9", f"--log-file={log}"]
        c = place.serve()
        try:
            c.initialize(timeout=30)
            s = c.tool("session", action="open").session
            c.tool("run_code", language="python", code="x = 1", session=s)
            c.tool("run_command", command="echo hello; head -c 2000000 /dev/urandom", session=s)
            c.tool("files", action="write", path="a.txt", content="hello", session=s)
            c.tool("files", action="list", session=s)
            r = c.tool("present_output", path="a.txt", session=s)
            c.request("resources/read", {"uri": r.uri}).result(10)
            self.assertTrue(c.tool("present_output", path="../x", session=s).is_error)
            self.assertTrue(c.tool("run_command", comand="x").is_error)
            c.raw(b'{"broken\n{"jsonrpc":"2.0","id":1,"id":2}\n')
            call = c.start("run_command", command="sleep 20", session=s)
            c.request("ping").result(10)
            c.notify("notifications/cancelled", {"requestId": call.id})
            c.tool("session", action="close", session=s)
            c.tool("run_command", command="true")
        finally:
            c.close(30)
        with open(log, encoding="utf-8", errors="replace") as f:
            said = f.read()
        self.assertEqual(0, c.proc.returncode, said[:6000])
        self.assertNotIn("definitely lost", said)
        # descriptors 0 to 2 were given; stderr is the log file of this test
        extra = [line for line in re.findall(r"Open file descriptor (\d+)", said) if int(line) > 2]
        self.assertEqual([], extra, said[:6000])
        self.assertEqual([], c.faults)


if __name__ == "__main__":
    if shutil.which("valgrind") is None:
        tap.skip_all("valgrind is not installed")
    harness.main()
