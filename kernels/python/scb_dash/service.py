"""Requests from the broker, and what answers them (docs/dashboard.md, "Requests")."""

import _thread
import builtins
import json
import os
import re
import sys
import threading
import time

from . import api, board, caches, controls, engine, errors, pictures, tables, text, wire

BOARDS_MAX = 16
STEPS_MAX = 20  # trees or patches before the last one
STEP_AFTER_S = 0.25
_ID = re.compile(r"d-[0-9a-z]{8,64}")


class BadRequest(Exception):
    """The broker, or the App through it, asked for what there is not."""

    __module__ = "builtins"  # how tracebacks name it


class Service:
    """All dashboards of a kernel."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.boards = {}
        self.running = None
        self.caches = caches.Caches()
        self.api = api.Api(self)
        self.module = api.Module("scb", self)

    # ---- what a script imports ----

    def enter(self, one):
        """From here on code runs as that dashboard's."""
        self.running = one
        self._streamlit = sys.modules.get("streamlit")
        sys.modules["scb"] = sys.modules["streamlit"] = self.module
        self._display = getattr(builtins, "display", None)
        builtins.display = self.module.display

    def leave(self):
        self.running = None
        if self._display is None:
            del builtins.display
        else:
            builtins.display = self._display
        if self._streamlit is None:
            sys.modules.pop("streamlit", None)
        else:
            sys.modules["streamlit"] = self._streamlit

    # ---- requests ----

    def answer(self, request):
        try:
            request = json.loads(request)
            op, key = request["op"], request["id"]
        except (ValueError, KeyError, TypeError):
            raise BadRequest("a dashboard's request is JSON with op and id") from None
        if not isinstance(key, str) or not _ID.fullmatch(key):
            raise BadRequest("a dashboard's id is d- and 8 to 64 letters and digits")
        handler = getattr(self, f"_op_{op}", None) if isinstance(op, str) else None
        if handler is None:
            raise BadRequest(f"there is no op {str(op)[:40]!r}")
        handler(key, request)

    def _whole(self, run, *arguments):
        """Interrupts come while code of the script runs: what is known of it is never torn."""
        with self.kernel.interrupts:
            run(*arguments)

    def _board(self, key):
        if key not in self.boards:
            raise BadRequest(f"there is no dashboard {key} in this kernel; run its code again")
        one = self.boards.pop(key)
        self.boards[key] = one  # the last used is the last to go
        return one

    def _op_new(self, key, request):
        while len(self.boards) >= BOARDS_MAX:
            del self.boards[next(iter(self.boards))]
        one = board.Board(key, self)
        one.engine = engine.Engine(one, self.kernel)
        self.boards[key] = one
        self._whole(self._code, one, request)

    def _op_edit(self, key, request):
        if key in self.boards:
            self._whole(self._code, self._board(key), request)
        else:  # a kernel that was started anew, or had many since
            self._op_new(key, request)

    def _op_drop(self, key, request):
        self.boards.pop(key, None)

    def _code(self, one, request):
        code = request.get("code")
        if not isinstance(code, str):
            raise BadRequest("code is missing")
        title = request.get("title")
        if isinstance(title, str) and title:
            one.given_title = wire.text(title, 200)
        self._size(one, request.get("px"))
        one.plain = request.get("plain") is True
        with Steps(one, self._tree_step) as steps:
            printed = one.engine.load(code, steps)
        self._finish(one, None)
        self._show(wire.MIME_TREE, one.whole())
        self._tell(one, printed)
        if one.plain:
            self._show_picture(one)
        one.engine.raise_interrupt()

    @staticmethod
    def _size(one, px):
        if isinstance(px, dict) and isinstance(px.get("w"), (int, float)) and px["w"] > 0:
            dpr = px.get("dpr")
            one.px = {"w": min(px["w"], 4000), "dpr": dpr if isinstance(dpr, (int, float)) and dpr > 0 else 1}

    def _tree_step(self, one):
        one.advance("running")
        self._show(wire.MIME_TREE, one.whole())

    def _finish(self, one, seq):
        return one.advance("error" if one.error else "ok", seq)

    def _tell(self, one, printed):
        said = text.shown(one.tree)
        self._show(wire.MIME_OUTLINE, text.outline(one, said))
        self.kernel.emit([(wire.MIME_TEXT, text.story(one, printed, said).encode("utf-8", "replace"))])

    def _show_picture(self, one):
        """The first figure, for who has no page to see it on."""
        for key, node in wire.by_id(one.tree).items():
            data = one.find("plain", key) if node["t"] == "image" else None
            if data and len(data) <= pictures.PLAIN_MAX:
                self.kernel.emit([("text/plain", b"image"), ("image/png", data)])
                return

    def _show(self, mime, value):
        self.kernel.emit([(mime, wire.encode(value))])

    # ---- events ----

    def _op_event(self, key, request):
        one, event = self._board(key), request.get("event")
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise BadRequest("event is missing, or has no type")
        self._size(one, event.get("px"))
        handler = getattr(self, f"_event_{event['type']}", None)
        if handler is None:
            raise BadRequest(f"there is no event {event['type'][:40]!r}; there are set, click, submit, table, "
                             "zoom, image, export, open, rerun")
        handler(one, event)

    def _replay(self, one, event, cause):
        seq = event.get("seq")

        def step(_):
            self._show(wire.MIME_PATCH, one.advance("running", seq))

        if not one.engine.gave_way:  # else who waits has nothing since the tree before that
            one.begin_run()
        with Steps(one, step) as steps:
            printed = one.engine.event(cause, steps)
        patch = self._finish(one, seq)
        if one.engine.gave_way:
            patch["overtaken"] = True
        self._show(wire.MIME_PATCH, patch)
        self._tell(one, printed)
        one.engine.raise_interrupt()

    def _event_set(self, one, event):
        values = event.get("values")
        if not isinstance(values, dict) or not values:
            raise BadRequest("set needs values: {\"Year\": 2024}")
        values = self._resolve(one, values)
        for cid in [cid for cid in values if cid in one.controls.forms]:
            one.controls.hold(cid, values.pop(cid))
        self._whole(self._replay, one, event, engine.Cause(values=values))

    def _event_click(self, one, event):
        cid = one.controls.find(event.get("id"), one.engine.controls_alive())
        if cid is None:
            raise BadRequest(self._no_control(one, event.get("id")))
        form = one.controls.forms.get(cid)
        values = one.controls.held_of(form) if form and one.controls.known[cid].get("submit") else {}
        self._whole(self._replay, one, event, engine.Cause(values=values, clicked=cid))

    def _event_submit(self, one, event):
        form = event.get("form")
        alive = one.engine.controls_alive()
        inside = [c for c in alive if one.controls.forms.get(c) == form]
        if not inside:
            raise BadRequest(f"there is no form {str(form)[:60]!r}")
        given = event.get("values")
        values = one.controls.held_of(form)
        values.update(self._resolve(one, given if isinstance(given, dict) else {}))
        buttons = [c for c in inside if one.controls.known[c].get("submit")]
        clicked = event.get("id") if event.get("id") in buttons else (buttons[0] if buttons else None)
        self._whole(self._replay, one, event, engine.Cause(values=values, clicked=clicked))

    def _event_rerun(self, one, event):
        self._whole(self._replay, one, event, engine.Cause(everything=True))

    def _resolve(self, one, values):
        alive = one.engine.controls_alive()
        out = {}
        for name, value in values.items():
            cid = one.controls.find(name, alive)
            if cid is None:
                raise BadRequest(self._no_control(one, name))
            out[cid] = value
        return out

    @staticmethod
    def _no_control(one, name):
        labels = [one.controls.known[c]["label"] for c in one.engine.controls_alive()]
        return f"there is no control {str(name)[:60]!r}. Controls: {', '.join(labels)[:400] or 'none'}."

    def _event_open(self, one, event):
        self._show(wire.MIME_TREE, one.whole(event.get("seq")))

    # ---- pages: no code of the script runs ----

    def _page(self, one, event, key, node, **more):
        answer = {"v": wire.VERSION, "id": one.id, "rev": one.rev, "seq": event.get("seq"),
                  "set": {} if node is None else {key: wire.clean({"id": key, **node})}, **more}
        self._show(wire.MIME_PAGE, answer)

    def _found(self, one, kind, event, what):
        key = event.get("id")
        found = one.find(kind, key) if isinstance(key, str) else None
        if found is None:
            raise BadRequest(f"there is no {what} {str(key)[:60]!r} any more")
        return key, found

    def _event_table(self, one, event):
        key, table = self._found(one, "tables", event, "table")
        try:
            node = table.node(event)
        except (errors.Teach, ValueError, TypeError, KeyError, AttributeError) as error:
            raise BadRequest(f"this table cannot be shown so: {error}") from None
        self._page(one, event, key, node)

    def _event_zoom(self, one, event):
        key, source = self._found(one, "charts", event, "chart")
        window = event.get("x")
        if window is not None:
            if not (isinstance(window, list) and len(window) == 2 and
                    all(isinstance(v, (int, float)) for v in window)):
                raise BadRequest("zoom needs x: [from, to], or null")
            window = sorted(window)
        self._page(one, event, key, source.node(one.px, window))

    def _event_options(self, one, event):
        """Those of a control in which the text stands, of however many there are."""
        key = event.get("id")
        node = one.controls.known.get(key) if isinstance(key, str) and key in one.engine.controls_alive() else None
        if node is None or "options" not in node:
            raise BadRequest(self._no_control(one, key))
        wanted = str(event.get("search") or "")[:200].casefold()
        every = one.find("options", key) or node["options"]
        found = [label for label in every if wanted in label.casefold()]
        self._page(one, event, key, {**node, "options": found[: controls.OPTIONS_MAX], "found": len(found)})

    def _event_image(self, one, event):
        _, (_, mime, data) = self._found(one, "images", event, "image")
        self.kernel.emit([("text/plain", b"image"), (mime, data)])

    def _event_export(self, one, event):
        key = str(event.get("id"))
        download = one.find("downloads", key)
        if download is not None:
            path = self._write_download(*download)
        else:
            key, table = self._found(one, "tables", event, "table")
            kind = event.get("format") or "csv"
            if kind not in ("csv", "xlsx", "parquet"):
                raise BadRequest("export: format is csv, xlsx or parquet")
            path = self._free_path(re.sub(r"\W+", "-", str(table.title or one.title())).strip("-").lower() or "table",
                              kind)
            try:
                table.write(path, kind, event)
            except (errors.Teach, ValueError) as error:
                raise BadRequest(str(error)) from None
        self._page(one, event, key, None, export={"path": path, "name": os.path.basename(path)})

    def _write_download(self, data, name, mime):
        stem, dot, ending = os.path.basename(str(name or "download")).rpartition(".")
        path = self._free_path(stem if dot else ending, ending if dot else "txt")
        if callable(data):
            data = data()
        if hasattr(data, "to_csv"):
            tables.write_frame(data, path, ending if ending in ("xlsx", "parquet") else "csv",
                               index=type(data.index).__name__ != "RangeIndex")
            return path
        if hasattr(data, "read"):
            data = data.read()
        if isinstance(data, str):
            data = data.encode("utf-8", "replace")
        with open(path, "wb") as file:
            file.write(bytes(data))
        return path

    def _free_path(self, stem, ending):
        """A name in the workspace, wherever the script has gone, that no file has yet."""
        folder = os.path.join(self.kernel.workspace, "exports")
        os.makedirs(folder, exist_ok=True)
        stem = stem.encode("utf-8", "replace")[:120].decode("utf-8", "ignore") or "table"
        for n in range(1, 10000):
            path = os.path.join(folder, f"{stem}{'' if n == 1 else f'-{n}'}.{ending[:16]}")
            if not os.path.lexists(path):
                return path
        raise BadRequest("exports/ is full of files of that name")


class Steps:
    """Says what is ready while a run lasts, not too often: after a unit, before one that took long last
    time, and, from a thread of its own, while one takes long."""

    def __init__(self, one, show):
        self._one, self._show = one, show
        self._last, self._left = time.monotonic(), STEPS_MAX
        self._lock = threading.Lock()
        self._news = False  # a unit has run since
        self._lasts = threading.Lock()  # held as long as the run lasts
        self._over = False

    def __enter__(self):
        self._lasts.acquire()
        try:  # without threading.Thread, which waits for it to begin: most runs end before it would
            _thread.start_new_thread(self._watch, ())
        except RuntimeError:  # no process is left
            pass
        return self

    def __exit__(self, *error):
        with self._lock:
            self._over = True
        self._lasts.release()

    def _watch(self):
        while not self._lasts.acquire(timeout=STEP_AFTER_S):
            try:
                self._step(STEP_AFTER_S)
            except Exception:  # the run's own end says all
                return

    def before_unit(self, cost):
        if cost >= STEP_AFTER_S:
            self._step(0)

    def after_unit(self):
        self._news = True
        self._step(STEP_AFTER_S)

    def _step(self, after_s):
        if not self._news or time.monotonic() - self._last < after_s:
            return
        with self._lock:
            if self._left and self._news and not self._over:
                self._news = False
                self._show(self._one)
                self._left -= 1
                self._last = time.monotonic()
