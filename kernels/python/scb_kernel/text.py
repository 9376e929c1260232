"""Texts cut to what a reader is given."""


def bounded(text, limit):
    """At most about limit characters: the head and, mostly, the tail."""
    if len(text) <= limit:
        return text
    head = limit // 4
    tail = limit - head
    return f"{text[:head]}\n… {len(text) - limit} characters left out …\n{text[-tail:]}"


def bounded_bytes(text, limit):
    """The same as UTF-8 of at most limit bytes."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return data
    # First as if all characters were of one length, then as if each took four bytes.
    for characters in (len(text) * (limit - 100) // (len(data) or 1), (limit - 100) // 4):
        if len(data) > limit:
            data = bounded(text, characters).encode("utf-8", "backslashreplace")
    return data
