"""peer.py: a Jupyter kernel as a notebook drives it: jupyter_client, ZeroMQ, ipykernel."""
import os
import subprocess
import time

from clock import Stopwatch

try:
    import ipykernel
    import jupyter_client
    import zmq
    from jupyter_client.manager import KernelManager
    NAME = f"a Jupyter kernel (ipykernel {ipykernel.__version__}, jupyter_client {jupyter_client.__version__})"
except ImportError:
    KernelManager = None
    NAME = "none (python3-jupyter-client and python3-ipykernel are not installed)"


class Jupyter:
    """One kernel, started and ready: `started` is how long that took."""

    def __init__(self, home):
        os.environ.update(JUPYTER_RUNTIME_DIR=home, IPYTHONDIR=home + "/ipython", JUPYTER_DATA_DIR=home,
                          PYDEVD_DISABLE_FILE_VALIDATION="1")
        began = time.perf_counter()
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.started = time.perf_counter() - began
        self.client.stop_channels()
        self._connect()

    def _connect(self):
        """Plain sockets: those of the client's channels pass through asyncio, which costs more than the
        kernel does."""
        self._context, self._poller = zmq.Context(), zmq.Poller()
        self._shell = self._context.socket(zmq.DEALER)
        self._iopub = self._context.socket(zmq.SUB)
        self._iopub.subscribe(b"")
        for socket, channel in ((self._shell, "shell"), (self._iopub, "iopub")):
            socket.linger = 0
            socket.connect(self.client._make_url(channel))
            self._poller.register(socket, zmq.POLLIN)
        while not self._iopub.poll(50):  # until the subscription is there
            self.client.session.send(self._shell, "kernel_info_request", {})

    @property
    def pid(self):
        return self.manager.provisioner.pid

    def run(self, code):
        """Runs a cell until both its reply and the kernel's return to idle are there, with whatever it
        printed and showed; the bytes of text that it printed."""
        session = self.client.session
        request = session.send(self._shell, "execute_request", {
            "code": code, "silent": False, "store_history": True, "user_expressions": {},
            "allow_stdin": False, "stop_on_error": True})
        mine, printed, replied, idle = request["header"]["msg_id"], 0, False, False
        while not (replied and idle):
            for socket, _ in self._poller.poll():
                _, message = session.recv(socket, mode=0)
                if message["parent_header"].get("msg_id") != mine:
                    continue
                kind, content = message["msg_type"], message["content"]
                if kind == "execute_reply":
                    replied = True
                    if content["status"] != "ok":
                        raise SystemExit(f"bench: the peer failed: {content}")
                elif kind == "stream":
                    printed += len(content["text"])
                elif kind == "status" and content["execution_state"] == "idle":
                    idle = True
        return printed

    def time_run(self, code):
        with Stopwatch() as watch:
            self.run(code)
        return watch

    def close(self):
        self._shell.close()
        self._iopub.close()
        self._context.term()
        self.manager.shutdown_kernel(now=True)
