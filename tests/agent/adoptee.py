"""A kernel that the agent did not start: what a template does in a sandbox, in one process.

    adoptee.py KERNELS AGENT SUPERVISOR CONTROL OUT ERR

Loads the Python kernel from KERNELS, becomes its supervisor and runs it on the descriptors given.
"""

import os
import struct
import sys

sys.path.insert(0, sys.argv[1])

from scb_kernel import loop, reborn  # noqa: E402

STARTED = struct.pack("=BBxxii32s", 1, 0, 0, 0, b"")  # struct supervise_msg


def fork_kernel(fd, program):
    """Returns in the kernel alone."""
    pid = os.fork()
    if pid:
        try:
            os.dup2(fd, 0)
            os.execve(program, ["scb-agent", "supervise", str(pid)], {})
        finally:
            os._exit(1)
    os.setsid()
    os.write(fd, STARTED)
    os.close(fd)


supervisor, control, out, err = map(int, sys.argv[3:])
kernel = loop.Kernel()
kernel.install()
fork_kernel(supervisor, sys.argv[2])
reborn.take_outputs(out, err)
reborn.renew()
kernel.attach(control)
kernel.serve()
