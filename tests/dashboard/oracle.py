"""Dashboards in this process, and the oracle: a fork in which the whole script runs afresh, from the
namespace, random state and session_state that the event began with, with the present control values."""

import gc
import io
import json
import os
import pickle
import sys
import types
import warnings

warnings.simplefilter("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "kernels", "python"), os.path.join(ROOT, "tests")]
os.environ.setdefault("MPLBACKEND", "Agg")

from scb_dash import chance, engine, service  # noqa: E402
from scb_kernel.interrupts import Interrupts  # noqa: E402

KEY = "d-00000000fuzz"


def _strange_library():
    """A module of which the engine knows nothing: it changes what it is given."""
    module = types.ModuleType("strangelib")
    exec("def touch(frame, v):\n    frame['a'] = frame['a'] + v\n"
         "def hide(items, v):\n    list.append(items, v)\n", vars(module))
    sys.modules["strangelib"] = module


_strange_library()


class InProcess:
    """What a Service needs of a kernel."""

    def __init__(self):
        self.module = types.ModuleType("__main__")
        self.namespace = vars(self.module)
        self.emitted = []
        self.interrupts = Interrupts()
        self.workspace = os.getcwd()

    def emit(self, mimes, **more):
        self.emitted.append(mimes)

    def newer_waits(self):
        return False

    def plain_python(self, source):
        return None

    def run_coroutine(self, coroutine):
        import asyncio

        return asyncio.run(coroutine)


class Board:
    """A dashboard, and its tree kept by patches."""

    def __init__(self, code, prepare=""):
        self.kernel = InProcess()
        exec(prepare, self.kernel.namespace)
        self.service = service.Service(self.kernel)
        self.request(op="new", id=KEY, code=code)
        self.tree = self._last("tree+json")

    @property
    def board(self):
        return self.service.boards[KEY]

    @property
    def engine(self):
        return self.board.engine

    def request(self, **request):
        self.kernel.emitted.clear()
        out = sys.stdout
        sys.stdout = io.StringIO()
        try:
            self.service.answer(json.dumps(request))
        finally:
            sys.stdout = out

    def _all(self, kind):
        return [json.loads(data) for mimes in self.kernel.emitted for mime, data in mimes if mime.endswith(kind)]

    def _last(self, kind):
        return self._all(kind)[-1]

    def event(self, kind, **event):
        from scb_dash import wire

        self.request(op="event", id=KEY, event={"type": kind, **event})
        for patch in self._all("patch+json"):
            assert patch["from"] <= self.tree["rev"] < patch["rev"], patch
            wire.apply(self.tree["tree"], patch)
            self.tree.update({k: patch[k] for k in ("rev", "status", "notes", "title")})
        return patch

    def set(self, **values):
        return self.event("set", values=values)

    def edit(self, code):
        self.request(op="edit", id=KEY, code=code)
        self.tree = self._last("tree+json")

    def metric(self, label):
        for node in _walk(self.tree["tree"]):
            if node["t"] == "metric" and node["label"] == label:
                return node.get("value", node.get("text"))
        raise AssertionError(f"no metric {label!r}")

    def nodes(self, t):
        return [n for n in _walk(self.tree["tree"]) if n["t"] == t]


def _walk(nodes):
    for node in nodes:
        yield node
        if isinstance(node.get("of"), list):
            yield from _walk(node["of"])


def comparable(tree):
    """A tree without what may differ: the ids of nodes, which a fresh run numbers anew."""
    def one(node):
        node = {k: v for k, v in node.items() if k not in ("id", "ref") or node["t"] in ("slider", "select")}
        if isinstance(node.get("of"), list):
            node["of"] = [one(child) for child in node["of"]]
        return node

    return json.dumps([one(node) for node in tree["tree"]], sort_keys=True)


class Moment:
    """What a dashboard showed after an event, and what a fresh run of its script begins with."""

    def __init__(self, board, base, state=None):
        old = board.board
        self.shown = comparable(board.tree)
        self.base, self.state = base, state
        self.source, self.title = old.engine.script.source, old.given_title
        self.raw = dict(old.controls.raw)
        self.drawn = old.engine.base_random


def fresh(board, moment):
    """The tree of a whole run in a fork: it has all that this process has."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        gc.disable()  # it would touch, and so copy, every page
        try:
            for manager in list(board.board.figures.managers):
                board.board.figures.rewind(manager)
            board.kernel.namespace.clear()
            answer = _run(board.service, board.kernel, moment)
        except BaseException as error:
            answer = {"failed": repr(error)}
        with os.fdopen(writer, "w") as out:
            out.write(json.dumps(answer))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def _run(service_, kernel, moment):
    kernel.namespace.update(moment.base)
    chance.restore(moment.drawn)
    kernel.emitted.clear()
    sys.stdout = io.StringIO()
    from scb_dash import board as boards

    new = boards.Board(KEY, service_)
    new.engine = engine.Engine(new, kernel)
    new.engine.base_random = moment.drawn
    new.controls.raw = dict(moment.raw)
    new.state._values = moment.state if moment.state is not None else {}
    new.given_title = moment.title
    service_.boards[KEY] = new
    new.engine.load(moment.source, service.Steps(new, lambda one: None))
    new.advance("error" if new.error else "ok")
    return new.whole()


class Other:
    """A fork made once, for scripts that leave nothing behind but what is theirs: each whole run has a
    kernel of its own there. A fork for each costs ten times as much."""

    def __init__(self):
        wanted, self._wanted = os.pipe()
        self._answers, answers = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._wanted)
            with os.fdopen(wanted, "rb") as source, os.fdopen(answers, "wb") as out:
                self._serve(source, out)
            os._exit(0)
        os.close(wanted)
        os.close(answers)
        self._wanted, self._answers = os.fdopen(self._wanted, "wb"), os.fdopen(self._answers, "rb")

    @staticmethod
    def _serve(source, out):
        while True:
            try:
                moment = pickle.load(source)
            except EOFError:
                return
            moment.base = base_namespace()
            try:
                kernel = InProcess()
                answer = comparable(_run(service.Service(kernel), kernel, moment))
            except BaseException as error:
                answer = f"failed: {error!r}"
            pickle.dump(answer, out)
            out.flush()

    def check(self, moments):
        """Raises AssertionError where at any of the moments something else was shown than a fresh run shows."""
        for moment in moments:
            moment.base = None  # the one that every script begins with
            pickle.dump(moment, self._wanted)
            self._wanted.flush()
            want = pickle.load(self._answers)
            if moment.shown != want:
                raise AssertionError(f"shown:  {moment.shown}\nfresh:  {want}")

    def close(self):
        self._wanted.close()
        self._answers.close()
        os.waitpid(self._pid, 0)


def check(board, base, state=None):
    """Raises AssertionError where the dashboard shows something else than a fresh run."""
    moment = Moment(board, base, state)
    wanted = fresh(board, moment)
    assert "failed" not in wanted, wanted
    want = comparable(wanted)
    if moment.shown != want:
        raise AssertionError(f"shown:  {moment.shown}\nfresh:  {want}")


def base_namespace():
    return {"__name__": "__main__", "__builtins__": __builtins__}
