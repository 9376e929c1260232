"""What the model reads of a dashboard: about 250 tokens, never the data; and the outline."""

from . import formats, nodes, wire

OUTLINE_MAX = 4000
LINE_MAX = 300
# Of each table, for who has no page to see it on.
ROWS, ROWS_MAX = 10, 2000
STORY_MAX = 8000  # bytes, of which the broker takes so many


def _walk(tree):
    for node in tree:
        yield node
        if node["t"] in wire.HOLDERS:
            yield from _walk(node["of"])


def _value(node):
    value = node.get("value")
    if node["t"] in ("multiselect",) and isinstance(value, list):
        options = node.get("options") or []
        if options and len(value) == len(options):
            return f"all {len(options)}"
        return ", ".join(value[:4]) + (f" … {len(value)} of {len(options)}" if len(value) > 4 else "") or "none"
    if isinstance(value, list):
        return "..".join(_scalar(v, node) for v in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _scalar(value, node)


def _scalar(value, node):
    if value is None:
        return "none"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return formats.number(value, node.get("fmt"))
    return str(value)[:60]


def _control(node):
    text = f"{node['label']}={_value(node)}"
    if node.get("options") and node["t"] != "multiselect":
        text += f" [{len(node['options'])}]"
    elif node.get("min") is not None and node.get("max") is not None:
        text += f" [{_scalar(node['min'], node)}..{_scalar(node['max'], node)}]"
    return text


def controls(tree):
    return [n for n in _walk(tree) if n["t"] in nodes.CONTROL_TYPES and "label" in n]


def metric(node):
    value = node["text"] if "text" in node else formats.number(node.get("value"), node.get("fmt"))
    delta = node.get("delta")
    if isinstance(delta, (int, float)):
        delta = f"{'+' if delta > 0 else ''}{formats.number(delta, node.get('fmt'))}"
    return f"{node['label']} {value}" + (f" ({delta})" if delta not in (None, "") else "")


def _numbers(values):
    return [v for v in values or () if isinstance(v, (int, float)) and not isinstance(v, bool)]


def _axis_at(node, i):
    axis = node.get("x") or {}
    if axis.get("v") is not None:
        return str(axis["v"][i]) if i < len(axis["v"]) else ""
    enc = axis.get("enc")
    if not enc:
        return ""
    if "step" in enc:
        at = enc["t0"] + i * enc["step"]
    else:
        at = enc["t0"] + enc["u"] * sum(enc["d"][:i])
    return _day(at)


def _day(ms):
    import datetime

    try:
        return (datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=ms)).date().isoformat()
    except OverflowError:
        return str(ms)


def _series(node, series):
    """`Furniture 197k→446k, peak 563k on 2025-11-30`"""
    values = series.get("v") or []
    fmt = (node.get("y") or {}).get("fmt")
    numbers = [(v, i) for i, v in enumerate(values) if isinstance(v, (int, float))]
    if not numbers:
        return f"{series['n']} no values"
    name = "" if series["n"] in ("value", "y") else f"{series['n']} "
    if node["kind"] in ("line", "area"):
        top, at = max(numbers)
        text = f"{name}{formats.number(numbers[0][0], fmt)}→{formats.number(numbers[-1][0], fmt)}"
        where = _axis_at(node, at) if "x" not in series else ""
        return text + (f", peak {formats.number(top, fmt)}" + (f" at {where}" if where else ""))
    best = sorted(numbers, key=lambda pair: -pair[0])[:3]
    return name + ", ".join(f"{_axis_at(node, i) or i} {formats.number(v, fmt)}" for v, i in best)


def chart(node):
    """One line on a chart."""
    kind, series = node["kind"], node.get("s") or []
    label = node.get("title") or (node.get("y") or {}).get("label") or kind
    if kind == "scatter":
        points = node.get("of") or sum(len(s.get("v") or ()) for s in series)
        return f"{label}: scatter, {points:,} points"
    if kind == "heatmap":
        return f"{label}: heatmap {len(node['y']['v'])} × {len(node['x']['v'])}"
    if kind == "box":
        parts = [f"{x} median {formats.number(b['med'])}" for s in series[:1]
                 for x, b in zip(node["x"]["v"], s["box"]) if b][:4]
        return f"{label}: box; " + ", ".join(parts)
    if kind == "histogram":
        total = sum(_numbers(v for s in series for v in s["v"]))
        edges = (node.get("x") or {}).get("edges") or [0]
        name = node.get("title") or (node.get("x") or {}).get("label") or "values"
        ends = [_day(e) if node["x"].get("t") == "time" else formats.number(e) for e in (edges[0], edges[-1])]
        return f"{name}: histogram of {formats.number(total)}, {ends[0]} to {ends[1]}"
    count = max((len(s.get("v") or ()) for s in series), default=0)
    shape = f"{kind}, {count}" + (f" × {len(series)}" if len(series) > 1 else "")
    return f"{label}: {shape}; " + "; ".join(_series(node, s) for s in series[:2]) + (
        "; …" if len(series) > 2 else "")


def table(node):
    names = ", ".join(c["n"] for c in node["cols"][:6]) + (", …" if len(node["cols"]) > 6 else "")
    text = f"{node.get('title') or 'Table'}: {node['total']:,} × {node.get('ncols') or len(node['cols'])} ({names})"
    missing = [f"{c['missing']:,} missing in {c['n']}" for c in node["cols"] if c.get("missing")]
    return text + (f", {', '.join(missing[:2])}" if missing else "")


def shown(tree):
    """One line for each thing that is shown."""
    lines, metrics = [], []
    for node in _walk(tree):
        kind = node["t"]
        if kind == "metric":
            metrics.append(metric(node))
            continue
        line = _line(node)
        if line:
            lines.append(line[:LINE_MAX])
    return metrics, lines


def _line(node):
    kind = node["t"]
    try:
        if kind == "chart":
            return chart(node)
        if kind == "table":
            return table(node)
    except Exception:
        return node.get("title") or kind
    if kind == "image":
        return f"Figure: {node.get('alt') or 'image'}"
    if kind == "note":
        return f"{node['level']}: {node['text']}"
    if kind == "json":
        return "JSON"
    return None


def _cell(value, column):
    if value is None:
        return "–"
    if column["t"] in ("time", "date") and isinstance(value, (int, float)):
        import datetime

        at = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=value)
        return at.date().isoformat() if at.time() == datetime.time() else at.isoformat(" ", "seconds")
    return " ".join(str(value).split())[:60]


def rows(node):
    """The first rows of a table, a line each."""
    columns, page = node["cols"], (node.get("page") or {}).get("v") or []
    page = [[None if c is None else v["dict"][c] for c in v["codes"]] if isinstance(v, dict) else v
            for v in page]
    lines = [" | ".join(c["n"] for c in columns)]
    for i in range(min(ROWS, max(map(len, page), default=0))):
        try:
            lines.append(" | ".join(_cell(values[i], c) for values, c in zip(page, columns)))
        except (IndexError, OverflowError, TypeError):
            break
    while len(lines) > 1 and len("\n".join(lines).encode("utf-8", "replace")) > ROWS_MAX:
        lines.pop()
    return lines if len(lines) > 1 and len(lines[0]) <= ROWS_MAX else []


def story(board, printed, said):
    """The text of the result; said is shown() of its tree."""
    lines = []
    if board.error:
        lines.append(board.error["story"])
    metrics, others = said
    lines.append(f'Dashboard {board.id} "{board.title()}" is shown.')
    bar = controls(board.tree)
    if bar:
        lines.append(("Controls: " + "; ".join(_control(c) for c in bar if c["t"] not in ("download",))[:800]))
    if metrics:
        lines.append(" · ".join(metrics)[:600])
    lines += others[:10]
    if len(others) > 10:
        lines.append(f"… and {len(others) - 10} more.")
    lines += [f"Note: {note}" for note in board.last_notes[:4]]
    if printed.strip():
        printed = printed.rstrip("\n")
        count = printed.count("\n") + 1
        lines.append(f"Printed ({count} line{'s' if count > 1 else ''}): " + printed[-300:].replace("\n", " ⏎ "))
    settable = [c for c in bar if c["t"] not in ("button", "download")]
    if settable:
        example = wire.dumps({settable[0]["label"]: settable[0]["value"]})
        lines.append(f'Change a control: data_dashboard(dashboard="{board.id}", event={{"type":"set",'
                     f'"values":{example[:200]}}}). New code: same call with code=….')
    else:
        lines.append(f'To change it: data_dashboard(dashboard="{board.id}", code=…).')
    for node in [n for n in _walk(board.tree) if n["t"] == "table"] if board.plain else ():
        lines += rows(node)
    return wire.text("\n".join(lines)).encode("utf-8", "replace")[:STORY_MAX].decode("utf-8", "ignore")


def outline(board, said):
    """For structured content: at most 4 KB; said is shown() of its tree."""
    metrics, others = said
    what = [f"metric {m}" for m in metrics] + others
    bar = []
    for c in controls(board.tree):
        one = {"id": c["id"], "label": c["label"], "kind": c["t"], "value": c["value"]}
        if c.get("options"):
            one["options"] = c["options"][:20]
        bar.append(one)
    out = {"dashboard": board.id, "rev": board.rev, "title": board.title(), "status": board.status,
           "controls": bar, "shown": [w[:160] for w in what[:40]], "notes": list(board.last_notes)[:6]}
    if board.error:
        out["error"] = board.error["story"][:500]
    while len(wire.encode(out)) > OUTLINE_MAX:
        if any("options" in c for c in bar):
            for c in bar:
                c.pop("options", None)
        elif len(out["shown"]) > 3:
            out["shown"] = out["shown"][: len(out["shown"]) // 2]
        elif len(out["controls"]) > 3:
            out["controls"] = bar = bar[: len(bar) // 2]
        else:
            for c in bar:
                c["value"] = str(c["value"])[:40]
            out["notes"] = [n[:100] for n in out["notes"][:2]]
            out["shown"] = [w[:60] for w in out["shown"]]
            break
    return wire.clean(out)
