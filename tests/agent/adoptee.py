"""A kernel that the agent did not start: what a template does in a sandbox, in one process.

    adoptee.py KERNELS AGENT SUPERVISOR CONTROL OUT ERR

Loads the Python kernel from KERNELS, becomes its supervisor and runs it on the descriptors given.
"""

import sys

sys.path.insert(0, sys.argv[1])

from scb_kernel import loop, reborn, supervise  # noqa: E402

supervisor, control, out, err = map(int, sys.argv[3:])
kernel = loop.Kernel()
kernel.install()
supervise.fork_kernel(supervisor, sys.argv[2])
reborn.take_outputs(out, err)
reborn.renew()
kernel.attach(control)
kernel.serve()
