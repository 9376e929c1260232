"""scb-enter.so: how a kernel comes from a process that has everything loaded (src/agent/birth.h)."""

import ctypes
import os

_STEP = 64  # ENTER_STEP


class Failed(Exception):
    """Which step did not work, and why."""


class Library:
    def __init__(self, kernels):
        """kernels is the folder that has python/scb-enter.so."""
        # PyDLL: the interpreter is held all the while, as it is in os.fork().
        self._so = ctypes.PyDLL(os.path.join(kernels, "python", "scb-enter.so"))
        self._python = ctypes.pythonapi

    def unload(self):
        import _ctypes

        _ctypes.dlclose(self._so._handle)

    @staticmethod
    def _call(function, *arguments):
        step = ctypes.create_string_buffer(_STEP)
        result = function(*arguments, step)
        if result < 0:
            raise Failed(f"{step.value.decode()}: {os.strerror(-result)}")
        return result

    def _forked(self, function, *arguments):
        """Does around it what os.fork() does."""
        result = -1
        self._python.PyOS_BeforeFork()
        try:
            result = self._call(function, *arguments)
        finally:
            if result:
                self._python.PyOS_AfterFork_Parent()
            else:
                self._python.PyOS_AfterFork_Child()
        return result

    def check(self):
        """Can this process, or a fork of it, be taken over?"""
        self._call(self._so.scb_birth_check)

    def rehearse(self):
        """What take() does around the birth itself."""
        self._forked(self._so.scb_birth_check)

    def enter_namespaces(self, fds):
        array = (ctypes.c_int * len(fds))(*fds)
        self._call(self._so.scb_enter_namespaces, array, len(fds))

    def take(self, supervisor, program, joins, config):
        """Returns in a kernel, to which this process's memory has gone; this process has ended."""
        array = (ctypes.c_int * len(joins))(*joins)
        self._forked(self._so.scb_birth_take, supervisor, os.fsencode(program), array, len(joins), config,
                     len(config))

    def twin(self, supervisor, program):
        """Returns 0 in the twin and, in this process, the pid of a child to wait for."""
        return self._forked(self._so.scb_birth_twin, supervisor, program)
