"""How a process's memory goes to a kernel (src/agent/birth.h), without a template around it. Prints TAP."""

import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
import tap  # noqa: E402

AGENT = os.path.abspath(os.environ["SCB_AGENT"])
KERNELS = os.path.abspath(os.environ["SCB_KERNELS"])

# Prints what became of it as one line of JSON: once, whoever is left.
PROGRAM = """
import ctypes, json, os, signal, socket, sys, threading, time
kernels, program, joins, workspace = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4]
sys.path.insert(0, kernels + "/python")
from scb_kernel import birth, wire
library = birth.Library(kernels)
library.check()
agents, supervisors = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
config = wire.tlv(3, workspace) if workspace else b""
before, memory, inherited = os.getpid(), ["kept"] * 1000, signal.pthread_sigmask(signal.SIG_BLOCK, [])
said = {}
try:
    library.take(supervisors.fileno(), program, joins, config)
except birth.Failed as error:
    said["failed"] = str(error)
where = ctypes.c_void_p()
ctypes.CDLL(None).prctl(40, ctypes.byref(where), 0, 0, 0)
with open(f"/proc/{before}/stat") as stat:
    said["caller"] = stat.read().rpartition(")")[2].split()[0]
for _ in range(200):  # it names itself when it has been executed, which nobody waits for
    with open(f"/proc/{os.getppid()}/comm") as comm:
        said["parent"] = comm.read().strip()
    if said["parent"] == "scb-supervisor" or "failed" in said:
        break
    time.sleep(0.01)
said.update(moved=os.getpid() != before, memory=len(set(memory)) == 1 and len(memory) == 1000,
            session=os.getsid(0) == os.getpid(), cwd=os.getcwd(),
            thread=ctypes.c_int.from_address(where.value).value == threading.get_native_id() == os.getpid(),
            signals=signal.pthread_sigmask(signal.SIG_BLOCK, []) == inherited)
threads = [threading.Thread(target=memory.append, args=(1,)) for _ in range(3)]
[t.start() for t in threads] and [t.join() for t in threads]
said["threads"] = len(memory) == 1003
pid = os.fork()
if pid == 0:
    os._exit(7)
said["fork"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
children = 0
try:
    while os.waitpid(-1, os.WNOHANG) != (0, 0):
        children += 1
except ChildProcessError:
    said["left"] = 0
os.write(1, json.dumps(said).encode())
os._exit(0)
"""
FINE = {"memory": True, "session": True, "thread": True, "signals": True, "threads": True, "fork": True, "left": 0}


class Birth(unittest.TestCase):
    def take(self, program=AGENT, joins=(), workspace="/tmp"):
        done = subprocess.run(
            ["/usr/bin/python3", "-c", PROGRAM, KERNELS, program, json.dumps(joins), workspace],
            capture_output=True, timeout=60, start_new_session=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return json.loads(done.stdout)

    def test_the_memory_moves(self):
        """in another process, below a supervisor, it goes on; who called has ended before"""
        self.assertEqual(self.take(), {
            **FINE, "moved": True, "caller": "Z", "parent": "scb-supervisor", "cwd": "/tmp"})

    def test_no_supervisor(self):
        """no program for it: the caller is told, has no child, and can go on"""
        said = self.take(program="/nonexistent")
        self.assertEqual((said["moved"], said["failed"]),
                         (False, "execute scb-agent: No such file or directory"))
        self.assertEqual({name: said[name] for name in FINE}, FINE)

    def test_no_group(self):
        """a group that cannot be joined: the same"""
        said = self.take(joins=[999])
        self.assertEqual((said["moved"], said["failed"]),
                         (False, "join the supervisor's groups: Bad file descriptor"))
        self.assertEqual({name: said[name] for name in FINE}, FINE)

    def test_not_confined(self):
        """what cannot be confined is told so, in the new process"""
        said = self.take(workspace="")
        self.assertEqual((said["moved"], said["failed"]), (True, "configuration: Protocol error"))


if __name__ == "__main__":
    tap.main()
