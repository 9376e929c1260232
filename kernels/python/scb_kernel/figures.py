"""matplotlib's figures: shown without show(), once, and closed. Imports nothing of matplotlib:
the code does, or it has no figures."""

import importlib.machinery
import io
import os
import sys
import warnings

from . import paths

# A picture larger than this is drawn again, coarser: one frame holds a result (show.BUNDLE_MAX),
# and a host gives the model no larger one.
PNG_WANTED = 190 * 1000
PIXELS_WANTED = 2000 * 1000


class _PyplotImport:
    """An entry of sys.meta_path that waits for pyplot, to give it a show() that shows."""

    def __init__(self, show):
        self._show = show

    def find_spec(self, name, path=None, target=None):
        if name != "matplotlib.pyplot":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            module.show = self._show

        spec.loader.exec_module = exec_module
        return spec


def environment():
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ.setdefault("MPLCONFIGDIR", paths.temporary(".matplotlib"))


def install(emit):
    """emit(mime) takes a picture's MIME bundle when code calls plt.show()."""
    environment()
    warnings.filterwarnings("ignore", message=".*(non-GUI backend|is non-interactive)")

    def show(*args, **kwargs):
        """Shows the open figures and closes them."""
        flush(emit)

    sys.meta_path.insert(0, _PyplotImport(show))


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, getattr(module, "Figure", ()))


def png(figure):
    """As large as may be shown: a drawing that is too large is made again, once or twice."""
    width, height = figure.get_size_inches() * figure.dpi
    scale = min(1, (PIXELS_WANTED / max(width * height, 1)) ** 0.5)
    for _ in range(3):
        out = io.BytesIO()
        figure.savefig(out, format="png", bbox_inches="tight", dpi=figure.dpi * scale)
        if out.tell() <= PNG_WANTED:
            break
        scale *= 0.9 * (PNG_WANTED / out.tell()) ** 0.5
    return out.getvalue()


_shown = []  # by this cell, as its result


def bundle(figure):
    """A figure's MIME types. This cell's flush() does not show it again."""
    _shown.append(figure)
    return [("text/plain", str(figure).encode()), ("image/png", png(figure))]


_HELPERS = "matplotlib._pylab_helpers"


def _managers():
    """pyplot's class that knows the open figures, or None where there is no matplotlib."""
    return getattr(sys.modules.get(_HELPERS), "Gcf", None)


def are_open():
    """Is there anything for flush() and discard() to do?"""
    return _shown or (_HELPERS in sys.modules and getattr(_managers(), "figs", None))


def flush(emit):
    """Shows and closes what is open."""
    gcf = _managers()
    if gcf is None:
        return
    shown = _shown[:]
    _shown.clear()
    figures = [manager.canvas.figure for manager in gcf.get_all_fig_managers()]
    gcf.destroy_all()
    for figure in figures:
        if not any(figure is other for other in shown) and (figure.axes or figure.texts):
            emit(bundle(figure))
    _shown.clear()


def discard():
    """Closes what is open."""
    _shown.clear()
    gcf = _managers()
    if gcf is not None:
        gcf.destroy_all()
