"""The process above a kernel that was forked, not started by the agent (src/agent/supervise.h).

It is forked from the same process as its kernel, but must hold none of that memory: what the kernel
overwrites would be kept twice. So it executes the agent's program as soon as the kernel lives, which
watches the kernel's tree from then on.
"""

import os
import struct

STARTED, FAILED = 1, 2
_STEP_FORK = 1
_message = struct.Struct("=BBxxii32s")  # struct supervise_msg


def _tell(fd, kind, step=0, value=0):
    try:
        os.write(fd, _message.pack(kind, step, value, 0, b""))
    except OSError:
        pass  # the agent is gone, which the other end of the socket shows


def fork_kernel(fd, program):
    """Called in the process that shall be the supervisor; returns in the kernel alone, which is a
    session of its own then.

    fd is the supervisor's socket to the agent (closed in the kernel), program the agent's own
    program: a path, or a descriptor of it.
    """
    try:
        pid = os.fork()
    except OSError as error:
        _tell(fd, FAILED, _STEP_FORK, error.errno)
        os._exit(1)
    if pid:
        try:
            os.dup2(fd, 0)
            os.execve(program, ["scb-agent", "supervise", str(pid)], {})
        finally:
            os._exit(1)  # the agent sees the socket's end, and ends the kernel
    os.setsid()
    _tell(fd, STARTED)  # the agent takes the sender's pid from the operating system
    os.close(fd)
