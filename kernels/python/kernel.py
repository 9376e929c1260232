"""The Python kernel of a sandbox: runs cells that the agent sends, keeps their variables.

    SCB_KERNEL_FD=3 python3 kernel.py

Speaks frames on the descriptor that SCB_KERNEL_FD names (docs/agent-protocol.md, "Kernels"); the
cells' own output goes to descriptors 1 and 2. Needs Python 3.9 and nothing else; IPython is used
where the sandbox has it.
"""

import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [here] + [entry for entry in sys.path if entry not in ("", here)]

from scb_kernel import loop  # noqa: E402

# Everything that a kernel needs is imported by now. From here on a file in the working directory
# may be named like a module of Python without harm to it.
sys.path[0] = ""
sys.argv[:] = [""]
loop.main()
