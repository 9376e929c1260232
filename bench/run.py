#!/usr/bin/python3
"""run.py [BUILD]: what things cost beside a Jupyter kernel (over HTTP: beside another MCP
server), in one run, one line a figure.

BENCH=NAME runs one group of figures alone (names: below); several are separated by blanks.
"""
import os
import shutil
import signal
import sys
import tempfile

sys.dont_write_bytecode = True
import audit  # noqa: E402
import dashboard  # noqa: E402
import docker  # noqa: E402
import paint  # noqa: E402
import peer  # noqa: E402
import policy  # noqa: E402
import redact  # noqa: E402
import report  # noqa: E402
import scb  # noqa: E402
import space  # noqa: E402
import start  # noqa: E402
import warm  # noqa: E402
import web  # noqa: E402

GROUPS = {
    "warm": warm.back_to_back,
    "apart": warm.apart,
    "command": warm.command,
    "kernel": start.kernel,
    "pandas": start.pandas,
    "twin": start.twin,
    "initialize": start.initialize,
    "idle": space.idle,
    "kernels": space.kernels,
    "sessions": space.sessions,
    "output": space.output,
    "size": space.size,
    "redact": redact.redact,
    "policy": policy.policy,
    "paint": paint.paint,
    "audit": audit.audit,
    "http": web.http,
    "connections": web.connections,
    "dashboard": dashboard.dashboard,
    "docker": docker.docker,
}


class Bench:
    """What the groups share: one server and one peer that live as long as they are used."""

    def __init__(self, build):
        self.build = build
        self.has_peer = peer.KernelManager is not None
        self._server = self._jupyter = None
        self._places = []
        self._home = tempfile.mkdtemp(prefix="scb-bench-peer-")

    def place(self):
        self._places.append(scb.Place(self.build))
        return self._places[-1]

    def server(self):
        if self._server is None:
            self._server = scb.Server(self.place())
        return self._server

    def new_jupyter(self):
        return peer.Jupyter(self._home)

    def jupyter(self):
        if self._jupyter is None and self.has_peer:
            self._jupyter = self.new_jupyter()
        return self._jupyter

    def close(self):
        if self._jupyter:
            self._jupyter.close()
        if self._server and self._server.proc.poll() is None:
            self._server.close()
        for place in self._places:  # those that a group left open, where it failed, too
            place.close()
        shutil.rmtree(self._home, True)


def main():
    wanted = os.environ.get("BENCH", "").split() or list(GROUPS)
    unknown = [name for name in wanted if name not in GROUPS]
    if unknown:
        raise SystemExit(f"bench: no figure {unknown[0]}; there are: {' '.join(GROUPS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended then, too
    report.header(peer.NAME)
    bench = Bench(sys.argv[1] if len(sys.argv) > 1 else "build")
    try:
        for name in wanted:
            for row in GROUPS[name](bench):
                print(row.line(), flush=True)
    finally:
        bench.close()
    print("load average " + " ".join(f"{x:.2f}" for x in os.getloadavg()))


main()
