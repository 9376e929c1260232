#!/usr/bin/python3
"""elsewhere.py: runs a program where part of the system is another one, in a mount namespace of its
own. For root; Debian's smallest systems have no mount(8).

  elsewhere.py bin SCRATCH CHANGE PROGRAM…   /usr/bin is an overlay (SCRATCH holds up/ and work/) on
                                             which the shell text CHANGE was run
  elsewhere.py run PROGRAM…                  /run is empty, as on a machine that has just started
"""
import ctypes
import os
import subprocess
import sys

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 1 << 14, 1 << 18
libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, options):
    check(libc.mount(source.encode(), target.encode(), kind.encode(), 0, options.encode()), f"mount {target}")


what, program = sys.argv[1], sys.argv[2:]
check(libc.unshare(CLONE_NEWNS), "unshare")
check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
if what == "bin":
    scratch, change, program = program[0], program[1], program[2:]
    mount("overlay", "/usr/bin", "overlay", f"lowerdir=/usr/bin,upperdir={scratch}/up,workdir={scratch}/work")
    subprocess.run(["sh", "-c", change], check=True)
else:
    mount("tmpfs", "/run", "tmpfs", "mode=0755")
os.execvp(program[0], program)
