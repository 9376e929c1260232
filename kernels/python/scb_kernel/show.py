"""Values as MIME bundles: a list of (type, bytes), text/plain first."""

import base64
import functools
import json
import re
import reprlib

from . import figures, table, wire
from .text import bounded, bounded_bytes

TEXT_MAX = 30 * 1024  # bytes of text/plain; what is longer would not stand in an answer
BUNDLE_MAX = 240 * 1024  # bytes of a DISPLAY frame; the link's own limit is 256 KiB

# What the broker takes for a type's name.
_TYPE = re.compile(r"[ !#-\[\]-~]+/[ !#-\[\]-~]*")

MIMES_MAX = 16  # of one bundle; so, too, for the broker

_scalars = frozenset((int, float, bool, complex, type(None)))
_containers = frozenset((list, tuple, set, frozenset, dict))
_PLAIN_ITEMS = 1000

_short = reprlib.Repr()
_short.maxlevel = 6
_short.maxlist = _short.maxtuple = _short.maxset = _short.maxfrozenset = _short.maxdict = 100
_short.maxdeque = _short.maxarray = 100
_short.maxstring = _short.maxlong = _short.maxother = 1000

_METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
)


def _items(value, budget):
    """What is left of budget once the items of nested containers are counted; < 0: too many."""
    budget -= len(value)
    if budget < 0:
        return budget
    for item in value.values() if type(value) is dict else value:
        if type(item) in _containers:
            budget = _items(item, budget)
        elif type(item) in (str, bytes):
            budget -= len(item) // 1000
        if budget < 0:
            break
    return budget


def _repr(value):
    """repr(), but not of all of what is very long."""
    kind = type(value)
    if kind in (str, bytes) and len(value) > TEXT_MAX:
        piece = TEXT_MAX // 10
        return f"{value[:piece]!r} … {value[-piece:]!r}\n(length {len(value)})"
    if kind in _containers:
        try:
            many = _items(value, _PLAIN_ITEMS) < 0
        except RecursionError:
            many = True
        if many:
            text = bounded(_short.repr(value), TEXT_MAX // 5)
            return f"{text}\n({kind.__name__} of length {len(value)})"
    return repr(value)


def _plain(value):
    return ("text/plain", bounded_bytes(_repr(value), TEXT_MAX))


def _as_bytes(mime, data):
    """A representation's data, however the object gives it; None where it gives none."""
    if data is None:
        return None
    if isinstance(data, tuple):  # (data, metadata)
        data = data[0]
    if isinstance(data, (bytes, bytearray)):
        return bytes(data)
    if isinstance(data, str):
        if mime.startswith("image/") and mime != "image/svg+xml":
            return base64.b64decode(data)
        return data.encode("utf-8", "replace")
    return json.dumps(data, ensure_ascii=False, allow_nan=False, default=str).encode(
        "utf-8", "replace"
    )


def from_mimebundle(data):
    """The dictionary of a _repr_mimebundle_ as a bundle."""
    out = [(mime, _as_bytes(mime, value)) for mime, value in data.items()]
    return sorted(
        [(mime, value) for mime, value in out if value is not None],
        key=lambda pair: pair[0] != "text/plain",
    )


def _rich(value):
    """What the object says of itself by IPython's _repr_…_ methods. One that fails is left out."""
    kind = type(value)
    method = getattr(kind, "_repr_mimebundle_", None)
    if method is not None:
        try:
            data = method(value, include=None, exclude=None)
            if isinstance(data, tuple):
                data = data[0]
            if data:
                return from_mimebundle(data)
        except Exception:
            pass
    out = []
    for name, mime in _METHODS:
        method = getattr(kind, name, None)
        if method is None:
            continue
        try:
            data = _as_bytes(mime, method(value))
        except Exception:
            continue
        if data is not None:
            out.append((mime, data))
    return out


def bundle(value):
    kind = type(value)
    if kind in _scalars or kind is str or kind in _containers:
        return [_plain(value)]
    if figures.is_figure(value):
        return figures.bundle(value)
    if table.is_table(value):
        mimes = [("text/plain", bounded_bytes(table.to_text(value), TEXT_MAX))]
        try:
            mimes.append((table.MIME, table.to_json(value)))
        except Exception:  # values that raise when they are looked at
            pass
        return mimes
    rich = [] if isinstance(value, type) else _rich(value)
    if not any(mime == "text/plain" for mime, _ in rich):
        rich.insert(0, _plain(value))
    return rich


@functools.lru_cache(maxsize=64)
def _type_tag(name):
    """The tag that names a type, or None where it is none."""
    return wire.tlv(wire.TAG_MIME, name) if _TYPE.fullmatch(name) else None


_RESULT = wire.tlv(wire.TAG_IS_RESULT, 1)
_NO_RESULT = wire.tlv(wire.TAG_IS_RESULT, 0)


def display_frame(mimes, is_result):
    """The frame of one bundle. What does not fit any more is named in it instead."""
    body = _RESULT if is_result else _NO_RESULT
    for mime, data in mimes[:MIMES_MAX]:
        name = str(mime)[:100]
        tag = _type_tag(name)
        if tag is None:
            body += wire.tlv(wire.TAG_MIME_SKIPPED, f"of no type {len(data)}")
        elif len(body) + len(name) + len(data) + 64 > BUNDLE_MAX:
            body += wire.tlv(wire.TAG_MIME_SKIPPED, f"{name} {len(data)}")
        else:
            body += tag + wire.tlv(wire.TAG_MIME_DATA, data)
    return wire.frame(wire.DISPLAY, body)


def _short_head(length):
    """What stands before a plain text of that length in a result's frame."""
    text = b"." * length
    return display_frame([("text/plain", text)], True)[: -length or None]


_SHORT_HEADS = tuple(_short_head(length) for length in range(64))


def result_frame(value):
    """The frame of a cell's result. That of a number is put together at once."""
    if type(value) in _scalars:
        text = repr(value)
        if len(text) < len(_SHORT_HEADS):
            return _SHORT_HEADS[len(text)] + text.encode()
    return display_frame(bundle(value), True)
