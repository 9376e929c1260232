"""The controls of `scb`: each returns its present value."""

import datetime

from . import controls
from .controls import labels_of
from .errors import Teach


_NAMES = {"select": "selectbox", "segmented": "segmented_control"}


def _callback(rest, name):
    return rest.get(name), (tuple(rest.get("args") or ()), dict(rest.get("kwargs") or {}))


class ControlFunctions:
    """A part of Api. Keywords that Streamlit has and that mean nothing here are taken and noted."""

    def _control(self, t, label, key, default, accept, rest, **fields):
        fields["callback"] = _callback(rest, "on_change")
        fields["disabled"] = bool(rest.get("disabled"))
        fields["placeholder"] = rest.get("placeholder")
        read, write = accept
        return self.board.controls.use(t, label, key, default, read, write, self.place, **fields)

    def _pick(self, t, label, options, index, format_func, key, help, rest):
        values, labels = labels_of(options, format_func)
        if not values:
            self.board.note(f"{_NAMES.get(t, t)} {label!r}: no options, because there are no values to choose from.")
            return self._control(t, label, key, None, (lambda raw: (None, None), lambda value: None), rest,
                                 options=[], help=help)
        if "default" in rest:  # of pills and segmented controls
            wanted = rest["default"]
            index = values.index(wanted) if wanted in values else None
        if index is not None and not -len(values) <= index < len(values):
            raise Teach(f"{_NAMES.get(t, t)} {label!r}: index {index} is outside the {len(values)} options")
        default = None if index is None else labels[index]
        return self._choice(t, label, key, default, controls.choice(values, labels), labels, help, rest)

    def _choice(self, t, label, key, default, accept, labels, help, rest):
        """A control with options. Of very many the first are sent; the rest is searched here."""
        more = len(labels) if len(labels) > controls.OPTIONS_MAX else None
        value = self._control(t, label, key, default, accept, rest, options=labels[: controls.OPTIONS_MAX],
                              total=more, help=help)
        if more:
            self.board.shown.options[self.board.shown.controls[-1]] = labels
        return value

    def selectbox(self, label, options=(), index=0, format_func=None, key=None, help=None, **rest):
        """One of the options."""
        return self._pick("select", label, options, index, format_func, key, help, rest)

    select = selectbox

    def radio(self, label, options=(), index=0, format_func=None, key=None, help=None, **rest):
        """One of the options, all of them visible."""
        return self._pick("radio", label, options, index, format_func, key, help, rest)

    def segmented_control(self, label, options=(), *, selection_mode="single", default=None,
                          format_func=None, key=None, help=None, **rest):
        """One of a few options, side by side; with selection_mode="multi" any of them."""
        if selection_mode == "multi":
            return self.pills(label, options, selection_mode="multi", default=default,
                              format_func=format_func, key=key, help=help, **rest)
        rest["default"] = default
        return self._pick("segmented", label, options, None, format_func, key, help, rest)

    def pills(self, label, options=(), *, selection_mode="single", default=None, format_func=None,
              key=None, help=None, **rest):
        """One of the options, or with selection_mode="multi" any of them."""
        if selection_mode == "multi":
            return self.multiselect(label, options, default, format_func, key, help, **rest)
        rest["default"] = default
        return self._pick("pills", label, options, None, format_func, key, help, rest)

    def multiselect(self, label, options=(), default=None, format_func=None, key=None, help=None, **rest):
        """A list of any of the options."""
        values, labels = labels_of(options, format_func)
        default = [] if default is None else default
        if isinstance(default, str) or not hasattr(default, "__iter__"):
            default = [default]
        chosen = [labels[values.index(one)] for one in default if one in values]
        return self._choice("multiselect", label, key, chosen, controls.choices(values, labels), labels, help, rest)

    def select_slider(self, label, options=(), value=None, format_func=None, key=None, help=None, **rest):
        """One of ordered options, or two of them as the ends of a range."""
        values, labels = labels_of(list(options), format_func)
        if not values:
            raise Teach(f"select_slider {label!r}: no options")
        if isinstance(value, (list, tuple)):
            default = [labels[values.index(one)] for one in value]
            read_any, write = controls.choices(values, labels)

            def read(raw):
                pair, shown = read_any(raw)
                if len(pair) != 2:
                    raise ValueError(raw)
                return tuple(pair), shown

            accept = read, write
        else:
            default = labels[0] if value is None else labels[values.index(value)]
            accept = controls.choice(values, labels)
        return self._control("select_slider", label, key, default, accept, rest, options=labels, help=help)

    def slider(self, label, min_value=None, max_value=None, value=None, step=None, format=None, key=None,
               help=None, **rest):
        """A number, or with a two-tuple as value a range of numbers; of dates where they are given."""
        from . import formats, frames

        ends = [frames.scalar(end) for end in (min_value, max_value)]
        parts = value if isinstance(value, (list, tuple)) else (value,)
        parts = [frames.scalar(part) for part in parts]
        if any(hasattr(part, "year") for part in [*ends, *parts]):
            return self._date_slider(label, ends, parts, value, step, key, help, rest)
        low, high = ends[0] if ends[0] is not None else 0, ends[1]
        numbers = [n for n in (low, high, step, *parts) if n is not None]
        kind = float if any(isinstance(n, float) for n in numbers) else int
        if high is None:
            high = 1.0 if kind is float else 100
        if high < low:
            raise Teach(f"slider {label!r}: max_value {high} is below min_value {low}")
        if step is None:
            step = (high - low) / 100 if kind is float else 1
        name = f"slider {label!r}"
        read, write = controls.number(kind, low, high, step, self.board, name)
        is_range = isinstance(value, (list, tuple))
        default = write(tuple(parts)) if is_range else (low if parts[0] is None else parts[0])
        return self._control("range" if is_range else "slider", label, key, default, (read, write), rest,
                             min=low, max=high, step=step or 1, fmt=formats.parse(format), help=help)

    def _date_slider(self, label, ends, parts, value, step, key, help, rest):
        given = [part for part in parts if part is not None]
        is_time = any(hasattr(v, "hour") for v in [*ends, *given] if v is not None)
        convert = controls.to_date if is_time else controls.as_day
        some = given or [end for end in ends if end is not None]
        margin = datetime.timedelta(days=14)
        low = convert(ends[0]) if ends[0] is not None else convert(some[0]) - margin
        high = convert(ends[1]) if ends[1] is not None else convert(some[-1]) + margin
        if isinstance(value, (list, tuple)):
            ends_of = [low, high] if len(given) < 2 else [convert(v) for v in given]
            default, t = [v.isoformat() for v in ends_of], "date_range"
        else:
            default, t = (convert(given[0]) if given else low).isoformat(), "date"
        accept = controls.day(low, high, self.board, f"slider {label!r}", convert)
        days = step.days if isinstance(step, datetime.timedelta) else step
        return self._control(t, label, key, default, accept, rest, min=low.isoformat(), max=high.isoformat(),
                             step=days, help=help)

    def number_input(self, label, min_value=None, max_value=None, value="min", step=None, format=None,
                     key=None, help=None, **rest):
        """A number that is typed."""
        from . import formats, frames

        low, high = frames.scalar(min_value), frames.scalar(max_value)
        if value == "min":
            value = low if low is not None else (0.0 if isinstance(step, float) else 0)
            if not isinstance(step, int) and low is None and step is None and isinstance(high, float):
                value = 0.0
        value = frames.scalar(value)
        numbers = [n for n in (low, high, step, value) if n is not None]
        kind = float if any(isinstance(n, float) for n in numbers) else int
        accept = controls.number(kind, low, high, step, self.board, f"number_input {label!r}")
        return self._control("number", label, key, value, accept, rest, min=low, max=high,
                             step=step or (1 if kind is int else 0.01), fmt=formats.parse(format), help=help)

    def date_input(self, label, value="today", min_value=None, max_value=None, key=None, help=None, **rest):
        """A date, or with two as value the ends of a range."""
        if isinstance(value, (list, tuple)):
            return self.date_range(label, value, min_value, max_value, key=key, help=help, **rest)
        low, high = (None if v is None else controls.as_day(v) for v in (min_value, max_value))
        default = None if value is None else controls.as_day(value).isoformat()
        return self._control("date", label, key, default, controls.day(low, high, self.board, f"date_input {label!r}"),
                             rest, min=low and low.isoformat(), max=high and high.isoformat(), help=help)

    def date_range(self, label, value=None, min_value=None, max_value=None, key=None, help=None, **rest):
        """Two dates, both included. value may be a column of times: then its first and last day."""
        from . import frames

        if frames.is_series(value) or frames.is_index(value):
            value = (value.min(), value.max())
        low, high = (None if v is None else controls.as_day(v) for v in (min_value, max_value))
        parts = [controls.as_day(v) for v in (value or ())]
        if len(parts) < 2:
            start = parts[0] if parts else low or datetime.date.today() - datetime.timedelta(days=30)
            parts = [start, high or max(start, datetime.date.today())]
        if value is not None and low is None and high is None and not rest.get("open"):
            low, high = (min(parts), max(parts)) if frames.is_series(value) else (None, None)
        accept = controls.day(low, high, self.board, f"date_range {label!r}")
        return self._control("date_range", label, key, [p.isoformat() for p in parts], accept, rest,
                             min=low and low.isoformat(), max=high and high.isoformat(), help=help)

    def time_input(self, label, value="now", key=None, help=None, **rest):
        """A time of the day."""
        def read(raw):
            if raw is None:
                return None, None
            at = datetime.time.fromisoformat(raw)
            return at, at.isoformat("minutes")

        if value == "now":
            value = datetime.datetime.now().time().replace(second=0, microsecond=0)
        if isinstance(value, datetime.datetime):
            value = value.time()
        default = None if value is None else value.isoformat("minutes")
        return self._control("time", label, key, default, (read, lambda v: v.isoformat("minutes")), rest, help=help)

    def checkbox(self, label, value=False, key=None, help=None, **rest):
        """True or False."""
        def read(raw):
            if not isinstance(raw, bool):
                raise ValueError(raw)
            return raw, raw

        return self._control(rest.pop("_t", "checkbox"), label, key, bool(value), (read, bool), rest, help=help)

    def toggle(self, label, value=False, key=None, help=None, **rest):
        """True or False, as a switch."""
        return self.checkbox(label, value, key, help, _t="toggle", **rest)

    def text_input(self, label, value="", max_chars=None, key=None, type="default", help=None, **rest):
        """A line of text."""
        return self._text("text", label, value, max_chars, key, help, rest)

    def text_area(self, label, value="", height=None, max_chars=None, key=None, help=None, **rest):
        """Several lines of text."""
        return self._text("text_area", label, value, max_chars, key, help, rest)

    def _text(self, t, label, value, limit, key, help, rest):
        def read(raw):
            if raw is None:
                return None, None
            if not isinstance(raw, str):
                raise ValueError(raw)
            return raw[:limit], raw[:limit]

        default = None if value is None else str(value)
        return self._control(t, label, key, default, (read, str), rest, help=help)

    def button(self, label, key=None, help=None, on_click=None, args=None, kwargs=None, *, type="secondary",
               **rest):
        """True only in the run that its click caused."""
        return self._button("button", label, key, help, on_click, args, kwargs, type)

    def _button(self, t, label, key, help, on_click, args, kwargs, look="secondary", **fields):
        board = self.board
        label = str(label)
        cid = board.controls.identity(t, label, key)
        clicked = board.clicked == cid
        node = {"id": cid, "t": t, "label": label, "value": None, **fields}
        if help:
            node["help"] = help
        if look == "primary":
            node["primary"] = True
        controls_ = board.controls
        form = board.form_of(self.place)
        if form:
            node["form"] = controls_.forms[cid] = form
        controls_.known[cid] = node
        controls_.callbacks[cid] = on_click, (tuple(args or ()), dict(kwargs or {}))
        board.shown.controls.append(cid)
        if clicked:
            board.shown.clicked = True
        board.put(node, self.place)
        return clicked

    def form_submit_button(self, label="Submit", help=None, on_click=None, args=None, kwargs=None, *, key=None,
                           type="secondary", **rest):
        """The button that hands a form's values over."""
        return self._button("button", label, key, help, on_click, args, kwargs, type, submit=True)

    def download_button(self, label, data=b"", file_name=None, mime=None, key=None, help=None, on_click=None,
                        **rest):
        """Gives a file to the person, through present_output."""
        cid_label = str(label)
        clicked = self._button("download", label, key, help, None, None, None, name=file_name or "download")
        self.board.keep_download(cid_label, data, file_name, mime)
        return clicked
