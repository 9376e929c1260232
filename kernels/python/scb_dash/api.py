"""The module `scb`, which scripts may also import as `streamlit`: Streamlit's names, where they make
sense for one page without an address. All functions are methods of containers, too."""

import difflib
import functools
import inspect
import types

from . import errors, nodes, values
from .api_controls import ControlFunctions
from .api_data import AGG_KEYWORDS, DataFunctions
from .errors import Stop, Teach

_LEVELS = ("success", "info", "warning", "error")


class Api(ControlFunctions, DataFunctions):
    """place: the container's id, or None for where the script stands."""

    def __init__(self, service, place=None):
        self._service = service
        self.place = place

    @property
    def board(self):
        board = self._service.running
        if board is None:
            raise Teach("scb shows things only in code that is given to data_dashboard")
        return board

    def method(self, container, name):
        """That function, putting what it shows into the container."""
        function = getattr(self.inside(container), name, None)
        if function is None or name in _NOT_FUNCTIONS:
            raise errors.unknown_name(name, names())
        return _forgiving(function)

    def inside(self, container):
        """These functions, putting what they show into the container."""
        return Api(self._service, container._scb_id)

    def _put(self, node, text=None):
        self.board.put(node, self.place)
        return nodes.Element(text or node["t"])

    # ---- text ----

    def markdown(self, body="", unsafe_allow_html=False, **rest):
        """Markdown: headings, emphasis, lists, tables, code, links. HTML is shown as text."""
        body = inspect.cleandoc(str(body))
        if unsafe_allow_html and "<" in body:
            plain = nodes.without_tags(body)
            if plain != body:
                self.board.note("HTML is not run here: tags were left out, their text kept.")
            body = plain
            if not body.strip():
                return nodes.Element("nothing")
        return self._put({"t": "md", "text": body}, "text")

    def title(self, body="", *ignored, **rest):
        """The dashboard's title; a second one is a heading."""
        if not self.board.set_title(str(body)):
            return self._put({"t": "md", "text": "# " + _one_line(body)}, f"title {body!r}")
        return nodes.Element(f"title {body!r}")

    def header(self, body="", *ignored, **rest):
        return self._put({"t": "md", "text": "## " + _one_line(body)}, "header")

    def subheader(self, body="", *ignored, **rest):
        return self._put({"t": "md", "text": "### " + _one_line(body)}, "subheader")

    def text(self, body="", **rest):
        """As it is, in the font of code."""
        return self._put({"t": "code", "text": str(body)}, "text")

    def caption(self, body="", unsafe_allow_html=False, **rest):
        body = nodes.without_tags(str(body)) if unsafe_allow_html else str(body)
        return self._put({"t": "md", "text": body, "small": True}, "caption")

    def code(self, body="", language="python", **rest):
        return self._put({"t": "code", "text": str(body), "lang": language}, "code")

    def latex(self, body="", **rest):
        """The formula's source: it is not typeset."""
        return self._put({"t": "code", "text": str(body), "lang": "latex"}, "formula")

    def divider(self, **rest):
        return self._put({"t": "divider"}, "divider")

    def json(self, body=None, **rest):
        return self._put({"t": "json", "v": values.json_tree(body)}, "json")

    def _note(self, level, body):
        return self._put({"t": "note", "level": level, "text": str(body)}, level)

    def success(self, body="", **rest):
        return self._note("success", body)

    def info(self, body="", **rest):
        return self._note("info", body)

    def warning(self, body="", **rest):
        return self._note("warning", body)

    def error(self, body="", **rest):
        return self._note("error", body)

    def exception(self, exception=None, **rest):
        text = errors.message(exception) if isinstance(exception, BaseException) else str(exception)
        return self._note("error", text)

    def toast(self, body="", **rest):
        return self._note("info", body)

    def balloons(self):
        return nodes.Element("nothing")

    snow = balloons

    def write(self, *args, **rest):
        """Each argument as what it is: text, table, figure, number …"""
        text = []
        for value in args:
            if isinstance(value, str):
                text.append(value)
                continue
            if text:
                self.markdown(" ".join(text), **rest)
                text = []
            values.show(self, value, in_write=True)
        if text:
            self.markdown(" ".join(text), **rest)
        return nodes.Element("text")

    display = write

    def write_stream(self, stream):
        text = "".join(str(part) for part in stream)
        self.markdown(text)
        return text

    # ---- layout ----

    def _container(self, node):
        key = self.board.put(node, self.place)
        return nodes.Container(self.board, key)

    def columns(self, spec=2, *, gap="small", **rest):
        """Containers side by side: how many, or their weights."""
        weights = [1] * spec if isinstance(spec, int) else [float(w) for w in spec]
        if not 1 <= len(weights) <= 12:
            raise Teach("columns: between 1 and 12 of them")
        grid = self.board.put({"t": "grid", "cols": weights, "of": []}, self.place)
        return [
            nodes.Container(self.board, self.board.put({"t": "box", "of": []}, grid))
            for _ in weights
        ]

    def tabs(self, names=(), **rest):
        """Containers of which one is visible."""
        names_ = [str(name) for name in names]
        if not names_:
            raise Teach("tabs: at least one name")
        tabs = self.board.put({"t": "tabs", "names": names_, "of": []}, self.place)
        return [
            nodes.Container(self.board, self.board.put({"t": "box", "of": []}, tabs))
            for _ in names_
        ]

    def expander(self, label="", expanded=False, **rest):
        return self._container({"t": "expander", "label": str(label), "open": bool(expanded), "of": []})

    def popover(self, label="", **rest):
        return self.expander(label)

    def container(self, *, border=False, height=None, key=None, **rest):
        return self._container({"t": "box", "border": bool(border), "of": []})

    def empty(self):
        """A place that holds one thing: the last."""
        return self._container({"t": "box", "single": True, "of": []})

    def form(self, key="form", clear_on_submit=False, **rest):
        """Controls in it take effect together, when its form_submit_button is clicked."""
        return self._container({"t": "box", "border": True, "form": str(key), "of": []})

    def spinner(self, text="", **rest):
        return self._container({"t": "box", "of": []})

    def status(self, label="", *, expanded=False, state="running", **rest):
        return self.expander(label, expanded)

    def progress(self, value=0, text=None):
        """How far it is: 0 to 100, or 0.0 to 1.0. What it returns is a place: its progress() takes the
        place of this one."""
        part = value * 100 if isinstance(value, float) else value
        shown = f"{text} · {part:.0f} %" if text else f"{part:.0f} %"
        bar = self.empty()
        self.inside(bar)._put({"t": "note", "level": "info", "text": shown})
        return bar

    def update(self, *, label=None, state=None, expanded=None):
        """Of a status: its label is not changed."""
        return nodes.Element("nothing")

    def dialog(self, title="", **rest):
        def wrap(function):
            return function

        return wrap

    @property
    def sidebar(self):
        return nodes.Container(self.board, "sidebar")

    # ---- state and cost ----

    @property
    def session_state(self):
        return self.board.state

    def cache_data(self, function=None, **rest):
        """Keeps results over events and edits; each caller gets a copy."""
        return self._cache(function, True)

    def cache_resource(self, function=None, **rest):
        """Keeps results over events and edits; all callers share them."""
        return self._cache(function, False)

    cache = experimental_memo = cache_data
    experimental_singleton = cache_resource

    def _cache(self, function, copies):
        if function is None:
            return lambda inner: self._cache(inner, copies)
        return self._service.caches.wrap(function, copies)

    def fragment(self, function=None, **rest):
        """The function itself: only what depends on a control runs again anyway."""
        return function if function is not None else (lambda inner: inner)

    experimental_fragment = fragment

    def stop(self):
        raise Stop

    def rerun(self, **rest):
        raise errors.Rerun

    experimental_rerun = rerun

    def set_page_config(self, page_title=None, **rest):
        if page_title:
            self.board.set_title(str(page_title), weak=True)
        return nodes.Element("nothing")

    def export(self, data, path="table.csv"):
        """Writes a table as a file of the workspace and gives it to the person."""
        return self.download_button(f"Download {path}", data, path)


def _one_line(body):
    return " ".join(str(body).split())


_NOT_FUNCTIONS = frozenset(("board", "place", "method", "inside", "put_chart", "session_state"))


def names():
    return sorted(
        name for name in dir(Api) if not name.startswith("_")
        and (name == "session_state" or name not in _NOT_FUNCTIONS)
    )


# Keywords of Streamlit's that mean nothing here, or are looked at where they do.
_TAKEN = frozenset(
    """anchor args autocomplete border captions channels clamp clear_figure clear_on_submit disabled divider
    enter_to_submit experimental_allow_widgets gap hash_funcs height help hide_index icon initial_sidebar_state
    key kwargs label_visibility layout line_numbers max_chars max_entries max_selections menu_items num_rows
    on_change on_click on_select output_format page_icon persist placeholder row_height run_every scope
    selection_mode show_spinner show_time theme ttl type unsafe_allow_html use_column_width
    use_container_width validate vertical_alignment width wrap_lines accept_new_options""".split()
)
_OF_CHARTS = frozenset((*AGG_KEYWORDS, "size", "names", "values", "x", "y", "color"))


@functools.lru_cache(None)
def _keywords(function):
    """(the names of its parameters, those that it looks for in the rest, whether it takes a rest)."""
    parameters = inspect.signature(function).parameters.values()
    own = {p.name for p in parameters}
    charts = _OF_CHARTS if function.__name__.endswith(("_chart", "histogram", "box_plot", "heatmap")) else frozenset()
    return own, charts, any(p.kind is p.VAR_KEYWORD for p in parameters)


def _forgiving(function):
    """Takes keywords that it does not know, with a note."""
    plain = getattr(function, "__func__", function)
    if not isinstance(getattr(function, "__self__", None), Api):
        return function

    @functools.wraps(plain)
    def call(*args, **kwargs):
        if kwargs:
            own, charts, takes = _keywords(plain)
            for name in [name for name in kwargs if name not in own]:
                if name not in charts | _TAKEN and not (takes and plain.__name__ in _HANDED_ON):
                    near = difflib.get_close_matches(name, own | charts, 1)
                    function.__self__.board.note(f"{plain.__name__} has no keyword {name!r}: it was left out." + (
                        f" Did you mean {near[0]!r}?" if near else ""))
                if not takes:
                    del kwargs[name]
        return function(*args, **kwargs)

    return call


_HANDED_ON = frozenset(("pyplot", "figure", "plotly_chart", "altair_chart", "data_editor", "experimental_data_editor"))


class Module(types.ModuleType):
    """`scb`: its functions, and for other names what to write instead."""

    def __init__(self, name, service):
        super().__init__(name, __doc__)
        api = Api(service)
        self.__dict__["_api"] = api
        for attribute in names():
            if attribute not in ("session_state", "sidebar"):
                function = getattr(api, attribute)
                self.__dict__[attribute] = _forgiving(function) if callable(function) else function
        for attribute in ("cache_data", "cache_resource"):
            self.__dict__[attribute].clear = service.caches.clear
        self.__dict__["column_config"] = ColumnConfig()
        self.__dict__["__version__"] = "1.40.0"
        self.__dict__["__all__"] = names()
        self.__dict__["__path__"] = []

    def __getattr__(self, name):
        if name in ("session_state", "sidebar"):
            return getattr(self._api, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise errors.unknown_name(name, names())


class ColumnConfig:
    """st.column_config.NumberColumn("Label", format="%.2f") and its like."""

    def __getattr__(self, name):
        if name.startswith("_") or not name.endswith("Column") and name != "Column":
            raise AttributeError(name)

        def column(label=None, *, format=None, width=None, help=None, hidden=False, **rest):
            return {"label": label, "format": format, "hidden": hidden, "kind": name}

        return column
