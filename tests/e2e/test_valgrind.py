#!/usr/bin/python3
"""The broker under valgrind: no memory that is lost or used wrongly, no descriptor left open.

Debian 12's valgrind knows neither clone3 nor pidfd_open, so no sandbox can be started under it: this
is the broker's life up to there, and the failing of it. Sanitizers see the rest.
"""
import os
import re
import shutil
import unittest

import harness
import tap
from harness import Place


class Valgrind(unittest.TestCase):
    def test_short_run(self):
        """both eras, bad input, refused calls, a sandbox that cannot be started"""
        place = Place()
        log = os.path.join(place.folder("log"), "valgrind")
        place.prefix += ["valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite,indirect", "--track-fds=yes",
                         "--error-exitcode=9", f"--log-file={log}"]
        c = place.serve("--solo")
        try:
            c.modern().request("server/discover").result(30)
            c.envelope = None
            c.initialize(timeout=30)
            for method in ("tools/list", "resources/list", "prompts/list"):
                c.request(method).result(10)
            for tool, arguments in (("run_code", {"code": "1"}), ("run_command", {"command": "true"}), ("session", {"action": "open"}),
                                    ("run_command", {"comand": "x"}), ("files", {"action": "list"}), ("job", {"action": "list"}),
                                    ("present_output", {"path": "../x"}), ("session", {"action": "close", "session": "s-0"})):
                c.tool(tool, **arguments)
            c.raw(b'{"broken\n{"jsonrpc":"2.0","id":1,"id":2}\n' + b"[" * 5000 + b"\n" + b"x" * (11 << 20) + b"\n")
            self.assertIn("code", c.request("resources/read", {"uri": "resource://scb/none"}).error(10))
            call = c.start("run_command", command="sleep 20")
            c.notify("notifications/cancelled", {"requestId": call.id})
            c.request("ping").result(10)
        finally:
            c.close(30)
        with open(log, encoding="utf-8", errors="replace") as f:
            said = f.read()
        self.assertEqual(0, c.proc.returncode, said[:6000])
        self.assertNotIn("definitely lost", said)
        opened = re.findall(r"Open file descriptor (\d+):(.*)\n==\d+==\s+(.*)", said)
        own = [o for o in opened if "inherited" not in o[2] and int(o[0]) > 2]
        self.assertEqual([], own, said[:6000])
        self.assertEqual([], c.faults)


if __name__ == "__main__":
    if shutil.which("valgrind") is None:
        tap.skip_all("valgrind is not installed")
    harness.main()
