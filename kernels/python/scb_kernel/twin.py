"""Live fork: a second kernel with the variables of this one (docs/agent-protocol.md, "Twins")."""

import os
import sys
import threading
import time

from . import paths, reborn, wire

# Names that one note or refusal lists.
LISTED = 8
# How often is looked whether threads have ended.
ENDING = 20

_birth = None


class Refused(Exception):
    """Why this kernel cannot be forked now."""


def _threads():
    """Names of the threads beside the main one. A lock that one of them holds would never be
    released in the twin, which has only the thread that forked."""
    known = {}
    for thread in threading.enumerate():
        known[thread.native_id] = thread.name
    native = [int(name) for name in os.listdir("/proc/self/task")]
    names = []
    for tid in native:
        if tid == os.getpid():
            continue
        name = known.get(tid)
        if name is None:
            try:
                with open(f"/proc/self/task/{tid}/comm") as file:
                    name = f"{file.read().strip()} (of a library)"
            except OSError:
                continue  # it has ended
        names.append(name)
    return names


def _check_threads():
    names = _threads()
    for _ in range(ENDING):
        if not names:
            return
        time.sleep(0.005)  # one may be ending: that of a dashboard's run, or one that was joined
        names = _threads()
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    raise Refused(
        f"threads run in it: {', '.join(names[:LISTED])}{more}; end them first (join() them, "
        "shut their executor or pool down)"
    )


def _own(kernel):
    """Descriptors of the kernel's own machinery."""
    own = {0, 1, 2, kernel.channel.fileno()}
    loop = kernel.event_loop()
    for name in ("_ssock", "_csock", "_selector"):
        end = getattr(loop, name, None)
        try:
            own.add(end.fileno())
        except (AttributeError, OSError, ValueError):
            pass
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    own.add(getattr(getattr(tracker, "_resource_tracker", None), "_fd", None))
    return own


def _shared(own):
    """Notes on descriptors that both will have: offsets and locks are common then, and two that talk
    to one database or server disturb each other."""
    files, sockets, pipes = [], 0, 0
    for name in os.listdir("/proc/self/fd"):
        if int(name) in own:
            continue
        try:
            target = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue  # that of the listing itself
        if target.startswith("socket:"):
            sockets += 1
        elif target.startswith("pipe:"):
            pipes += 1
        elif target.startswith("/") and not target.startswith(("/dev/", "/proc/")):
            files.append(target)
    notes = [f"shared_file:{path[:200]}" for path in sorted(set(files))]
    if len(notes) > LISTED:
        notes[LISTED:] = [f"shared_files_more:{len(notes) - LISTED}"]
    if sockets:
        notes.append(f"shared_sockets:{sockets}")
    if pipes:
        notes.append(f"shared_pipes:{pipes}")
    return notes


def _become(kernel, control, out, err):
    """In the twin."""
    reborn.take_outputs(out, err)
    reborn.renew()
    kernel.attach(control)
    kernel.interrupts.install()
    kernel.send_ready()


def _library():
    """Loaded at first need: most kernels have no twin."""
    global _birth
    if _birth is None:
        with paths.without_cwd():
            from . import birth
        here = sys.modules[__package__].__path__[0]  # as it is seen in the sandbox
        _birth = birth.Library(os.path.dirname(os.path.dirname(here)))
    return _birth


def _fork(kernel, fds):
    """Returns 0 in the twin, and here the pid of a process that has ended: so the supervisor is a
    child of this kernel's supervisor, instead of this kernel's own, which code could wait for."""
    supervisor, control, out, err, program = fds
    reborn.prepare()
    try:
        ended = _library().twin(supervisor, program)
    except Exception as error:
        raise Refused(f"no process could be made: {error}") from None
    if ended:
        return ended
    try:
        os.close(program)
        _become(kernel, control, out, err)
    except BaseException:
        os._exit(1)  # the agent sees the sockets' end
    return 0


def answer(kernel, fds):
    """FORK came with these descriptors: says FORKED in this kernel; in the twin it only returns, and
    the twin then reads its own cells."""
    body, ended = b"", None
    try:
        if len(fds) != 5:
            raise Refused("the agent's descriptors did not come")
        _check_threads()
        notes = _shared(_own(kernel).union(fds))
        ended = _fork(kernel, fds)
        if ended == 0:
            return
        for note in notes:
            body += wire.tlv(wire.TAG_NOTE, note)
    except Refused as refusal:
        body = wire.tlv(wire.TAG_TEXT, str(refusal))
    for fd in fds:
        os.close(fd)
    kernel.channel.end_cell(wire.frame(wire.FORKED, body))
    if ended:
        try:
            os.waitpid(ended, 0)
        except ChildProcessError:
            pass  # code has SIGCHLD ignored, or a handler of its own
