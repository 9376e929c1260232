"""Figures of matplotlib and other pictures. The bytes stay here; the tree names them."""

import io
import os
import struct
import sys

from . import frames
from .errors import Teach
from .nodes import Element

SVG_MAX = 150 * 1000
PNG_MAX = 200 * 1000
PLAIN_MAX = 150 * 1000  # with the model's answer, for who has no page


def _pyplot():
    return sys.modules.get("matplotlib.pyplot")


def show_figure(api, fig, clear):
    plt = _pyplot()
    given = fig
    if fig is None:
        if plt is None or not plt.get_fignums():
            raise Teach("pyplot: there is no figure. Draw one, or give it: scb.pyplot(fig)")
        fig = plt.gcf()
    figure = frames.figure_of(fig)
    if figure is None:
        raise Teach(f"pyplot: a {type(fig).__name__} is no figure of matplotlib")
    data, mime, size = render(figure)
    key = _put(api, data, mime, size, _title_of(figure), None)
    if api.board.plain:
        api.board.shown.plain[key] = _png(figure, 1.0, PLAIN_MAX)
    api.board.figures.was_shown(figure)
    if clear or (clear is None and given is None and plt is not None):
        plt.close(figure)
    return Element("figure")


def _title_of(figure):
    """What a person who cannot see it is told."""
    parts = []
    if getattr(figure, "_suptitle", None) is not None:
        parts.append(figure._suptitle.get_text())
    for axes in figure.axes[:6]:
        names = [axes.get_title(), axes.get_ylabel(), axes.get_xlabel()]
        title = names[0] or " by ".join(n for n in names[1:] if n)
        if title:
            parts.append(title)
    return "; ".join(parts) or "Figure"


def render(figure):
    """(bytes, MIME type, (width, height)): SVG where it is small, else PNG that gets coarser."""
    width, height = (int(v) for v in figure.get_size_inches() * figure.dpi)
    if _marks(figure) < 3000:
        out = io.BytesIO()
        figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
        if out.tell() <= SVG_MAX:
            return _plain_svg(out.getvalue()), "image/svg+xml", (width, height)
    return _png(figure, 2.0, PNG_MAX), "image/png", (width, height)


def _png(figure, scale, most):
    """At most so many bytes, by getting coarser."""
    width, height = figure.get_size_inches() * figure.dpi
    scale = min(scale, (4_000_000 / max(width * height, 1)) ** 0.5)
    for _ in range(4):
        out = io.BytesIO()
        figure.savefig(out, format="png", bbox_inches="tight", dpi=figure.dpi * scale)
        if out.tell() <= most:
            break
        scale *= 0.9 * (most / out.tell()) ** 0.5
    return out.getvalue()


def _marks(figure):
    """About how many points a drawing has, so that a large one is not written as SVG in vain."""
    count = 0
    for axes in figure.axes:
        for line in axes.lines:
            count += len(line.get_xdata(orig=False))
        for collection in axes.collections:
            offsets = collection.get_offsets()
            count += len(offsets) if offsets is not None else 0
        count += 2 * len(axes.patches) + 500 * len(axes.images)
    return count


def _plain_svg(data):
    """Ids in it are made from random numbers: the same figure gives the same bytes without them."""
    import re

    seen = {}

    def name(found):
        return seen.setdefault(found.group(0), b"p%d" % len(seen))

    return re.sub(rb"\b[pm][0-9a-f]{10}\b", name, data)


def _put(api, data, mime, size, alt, width):
    board = api.board
    node = {"t": "image", "w": size[0], "h": size[1], "alt": str(alt or ""), "mime": mime,
            "ref": board.keep_image(data, mime)}
    if width and isinstance(width, (int, float)):
        node["w"], node["h"] = int(width), int(size[1] * width / max(size[0], 1))
    key = board.put(node, api.place)
    board.shown.images[key] = node["ref"], mime, data
    return key


def show_image(api, image, caption, width):
    data, mime, size = load(image)
    _put(api, data, mime, size, caption, width)
    if caption:
        api.caption(caption)


def load(image):
    """(bytes, MIME type, size) of what a script gives as a picture."""
    if isinstance(image, (str, os.PathLike)):
        if str(image).startswith(("http://", "https://")):
            raise Teach("image: pictures from the network are not fetched; give a path")
        with open(image, "rb") as file:
            image = file.read()
    elif isinstance(image, io.IOBase):
        image = image.read()
    if isinstance(image, (bytes, bytearray)):
        data = bytes(image)
        return (data, *_what(data))
    if hasattr(image, "save") and hasattr(image, "size"):
        return _from_pil(image)
    if frames.is_array(image):
        return _from_array(image)
    raise Teach(f"image: a {type(image).__name__} is no picture. Give a path, bytes, an array or one of PIL.")


def _what(data):
    if data[:8] == b"\x89PNG\r\n\x1a\n":
        return "image/png", struct.unpack(">II", data[16:24])
    if data[:3] == b"GIF":
        return "image/gif", struct.unpack("<HH", data[6:10])
    if data[:4] == b"RIFF":
        return "image/webp", (640, 480)
    if data[:2] == b"\xff\xd8":
        return "image/jpeg", _jpeg_size(data)
    if b"<svg" in data[:1000]:
        return "image/svg+xml", (640, 480)
    raise Teach("image: these bytes are no PNG, JPEG, GIF, WebP or SVG")


def _jpeg_size(data):
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            break
        if data[at + 1] in range(0xC0, 0xC4):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
    return 640, 480


def _from_pil(image):
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue(), "image/png", image.size


def _from_array(array):
    try:
        from matplotlib import image as writer
    except ImportError:
        raise Teach("image: arrays need matplotlib, which this sandbox does not have") from None
    if array.dtype.kind == "f" and array.size and array.max() > 1:
        array = array / 255.0
    out = io.BytesIO()
    writer.imsave(out, array, format="png", cmap="gray" if array.ndim == 2 else None)
    return out.getvalue(), "image/png", (array.shape[1], array.shape[0])
