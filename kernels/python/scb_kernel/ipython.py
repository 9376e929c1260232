"""IPython's engine, for what is not plain Python: magics, `!command`, `name?`. Loaded when a cell
first needs it, since its import takes longer (170 ms) than starting the kernel (20 ms)."""

import os
import subprocess
import warnings

from . import paths, show, streams


def load(kernel):
    """Makes the shell in the kernel's namespace. ImportError where there is no IPython."""
    with paths.without_cwd():
        return _make_shell(kernel)


def _make_shell(kernel):
    from IPython.core.compilerop import CachingCompiler
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.formatters import DisplayFormatter
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Compiler(CachingCompiler):
        def get_code_name(self, raw_code, transformed_code, number):
            return kernel.cell_name

    class Hook(DisplayHook):
        def __call__(self, result=None):
            if result is not None:
                kernel.show_result(result, kernel.source.rstrip().endswith(";"))

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
            kernel.emit(show.from_mimebundle(data))

        def clear_output(self, wait=False):
            pass

    class Formatter(DisplayFormatter):
        def format(self, obj, include=None, exclude=None):
            return dict(show.bundle(obj)), {}

    class Shell(InteractiveShell):
        compiler_class = Compiler
        displayhook_class = Hook
        display_pub_class = Publisher

        def init_display_formatter(self):
            self.display_formatter = Formatter(parent=self)

        def system(self, cmd):
            """`!cmd`. (IPython's own takes 110 ms, waiting for a terminal.)"""
            streams.flush_outputs()
            self.user_ns["_exit_code"] = subprocess.call(
                self.var_expand(cmd, depth=1), shell=True, executable=_shell_path()
            )

        system_raw = system_piped = system

        def ask_exit(self):
            raise SystemExit(0)

        # The kernel reports errors itself, from the result of run_cell().
        def showtraceback(self, *args, **kwargs):
            pass

        def showsyntaxerror(self, *args, **kwargs):
            pass

        def enable_gui(self, gui=None):
            pass

        def enable_matplotlib(self, gui=None):
            return "agg", "agg"  # figures are shown without it

        def enable_pylab(self, gui=None, import_all=True, welcome_message=False):
            raise NotImplementedError("%pylab is not there; import what you need")

    config = Config()
    config.HistoryManager.enabled = False  # else a thread and a database
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.xmode = "Context"
    os.environ.setdefault("IPYTHONDIR", paths.temporary(".ipython"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shell = Shell.instance(
            config=config,
            ipython_dir=os.environ["IPYTHONDIR"],
            user_module=kernel.module,
            user_ns=kernel.namespace,
        )
    shell.loop_runner = kernel.run_coroutine
    shell.set_hook("show_in_pager", _print_page, 0)
    shell.builtin_trap.auto_builtins.pop("exit", None)
    shell.builtin_trap.auto_builtins.pop("quit", None)
    for name in ("exit", "quit"):
        kernel.namespace.pop(name, None)
    warnings.filterwarnings("ignore", message="To exit: use")
    return shell


def _shell_path():
    return "/bin/bash" if os.access("/bin/bash", os.X_OK) else None


def _print_page(shell, data, start=0, screen_lines=0, pager_cmd=None):
    print(data["text/plain"] if isinstance(data, dict) else data)


def run(shell, source):
    """Runs a cell; raises what it raised."""
    result = shell.run_cell(source, store_history=False)
    error = result.error_before_exec or result.error_in_exec
    if error is not None:
        raise error
