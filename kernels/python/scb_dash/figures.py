"""pyplot's figures, kept apart by where the script begins a new one: a segment is all units that draw
from one such place to the next, and is drawn anew as a whole."""

import sys
import weakref

from . import frames, nodes


def _gcf():
    return getattr(sys.modules.get("matplotlib._pylab_helpers"), "Gcf", None)


class Figures:
    def __init__(self, board):
        self.board = board
        self.managers = {}  # segment: [manager]
        self.order = ["0"]
        self.shown = weakref.WeakSet()  # figures that the script showed itself
        self._theirs = None
        self._show = None

        def show(*args, **kwargs):  # a function: pyplot sets attributes of it
            """Shows what is open, and closes it."""
            self.show_open()

        self._own_show = show

    # ---- around a run ----

    def enter(self, order):
        """Takes away what other code has open."""
        self.order = ["0", *order]
        gcf = _gcf()
        self._theirs = None if gcf is None else dict(gcf.figs)
        if gcf is not None:
            gcf.figs.clear()

    def leave(self):
        gcf = _gcf()
        if gcf is not None:
            gcf.figs.clear()
            gcf.figs.update(self._theirs or {})
        plt = sys.modules.get("matplotlib.pyplot")
        if plt is not None and self._show is not None:
            plt.show, self._show = self._show, None

    def activate(self, segment):
        """pyplot as it stands where the segment's next unit begins."""
        gcf = _gcf()
        if gcf is None:
            return
        gcf.figs.clear()
        last = self.order.index(segment) if segment in self.order else len(self.order)
        for one in self.order[: last + 1]:
            for manager in self.managers.get(one, ()):
                gcf.figs[manager.num] = manager
        plt = sys.modules.get("matplotlib.pyplot")
        if plt is not None and self._show is None:
            _looks(plt)
            self._show, plt.show = plt.show, self._own_show

    def collect(self, segment):
        """What the unit opened or closed."""
        gcf = _gcf()
        if gcf is None:
            return
        last = self.order.index(segment) if segment in self.order else len(self.order)
        known = {id(m) for one in self.order[:last] for m in self.managers.get(one, ())}
        self.managers[segment] = [m for m in gcf.figs.values() if id(m) not in known]
        open_ = {id(m) for m in gcf.figs.values()}
        for one in self.order[:last]:
            self.managers[one] = [m for m in self.managers.get(one, ()) if id(m) in open_]

    def rewind(self, segment):
        """Its figures go: it is drawn anew."""
        for manager in self.managers.pop(segment, ()):
            self.shown.discard(manager.canvas.figure)

    def segment_of(self, value):
        figure = frames.figure_of(value)
        for segment, managers in self.managers.items():
            if any(m.canvas.figure is figure for m in managers):
                return segment
        return None

    # ---- showing ----

    def was_shown(self, figure):
        self.shown.add(figure)

    def show_open(self):
        """plt.show()"""
        gcf = _gcf()
        for manager in list(gcf.figs.values()) if gcf is not None else ():
            figure = manager.canvas.figure
            if figure not in self.shown and (figure.axes or figure.texts):
                self.board.api.pyplot(figure)
            del gcf.figs[manager.num]

    def left_open(self):
        """Figures that the script drew and did not show."""
        return [
            m.canvas.figure for segment in self.order for m in self.managers.get(segment, ())
            if m.canvas.figure not in self.shown and (m.canvas.figure.axes or m.canvas.figure.texts)
        ]


# The page's series colours where they have a contrast of 3 on white and on its dark cards, else nearer to the middle.
_PALETTE = ("#4f6be6", "#ca5206", "#0e948a", "#a85c8a", "#8266bb", "#a87a0b", "#0085a4", "#c24e46")
_GREY = "#7c818c"


def _looks(plt):
    """Our colours and sizes, where the script has not chosen its own."""
    rc = plt.rcParams
    if rc.get("svg.hashsalt"):
        return
    rc["svg.hashsalt"] = "scb"
    default = sys.modules["matplotlib"].rcParamsDefault
    wanted = {
        "axes.prop_cycle": plt.cycler(color=_PALETTE), "figure.facecolor": "none", "axes.facecolor": "none",
        "savefig.facecolor": "auto", "text.color": _GREY, "axes.labelcolor": _GREY, "xtick.color": _GREY,
        "ytick.color": _GREY, "axes.edgecolor": _GREY, "axes.titlecolor": "auto", "axes.spines.top": False,
        "axes.spines.right": False, "figure.figsize": (7.0, 3.6), "legend.framealpha": 0.0,
        "svg.fonttype": "none",
    }
    for name, value in wanted.items():
        if name in rc and rc[name] == default[name]:
            rc[name] = value


def end_part(board, figures):
    """A Shown of the figures that were left open."""
    shown = board.begin("end", "")
    for figure in figures:
        board.api.pyplot(figure)
        board.figures.shown.discard(figure)
    board.shown = nodes.Shown()
    return shown
