"""Numbers, charts, tables and pictures of `scb`."""

from . import charts, formats, frames, pictures, tables, values
from .errors import Teach
from .nodes import Element

AGG_KEYWORDS = ("agg", "stack", "horizontal", "bins", "sort", "log", "title", "x_label", "y_label", "format",
                 "height")


class DataFunctions:
    """A part of Api."""

    def metric(self, label, value=None, delta=None, delta_color="normal", help=None, *, format=None, chart=None,
               chart_data=None, **rest):
        """A number with its name, and what changed. Texts such as "€1.2M" are kept as given."""
        node = {"t": "metric", "label": str(label)}
        value = frames.scalar(value)
        fmt = formats.parse(format)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            node["text"] = "–" if value is None else values.plain(value)
        else:
            node["value"] = value
            if fmt:
                node["fmt"] = fmt
        delta = frames.scalar(delta)
        if delta is not None and delta != "":
            node["delta"] = delta if isinstance(delta, (int, float, str)) else str(delta)
            falls = str(delta).lstrip().startswith(("-", "−"))
            good = "off" if delta_color == "off" else (
                "up" if falls == (delta_color == "inverse") else "down")
            if isinstance(delta, (int, float)) and delta == 0:
                good = "off"
            node["good"] = good
        if help:
            node["help"] = str(help)
        spark = chart if chart is not None else chart_data
        if spark is not None:
            node["spark"] = values.spark(spark)
        self.board.put(node, self.place)
        return Element(f"metric {str(label)!r}")

    # ---- charts ----

    def chart(self, data=None, kind="auto", x=None, y=None, color=None, *, size=None, agg=None, stack=None,
              horizontal=None, bins=None, sort=None, log=None, title=None, x_label=None, y_label=None, format=None,
              height=None, **rest):
        """A chart: line, area, bar, scatter, histogram, box, heatmap, pie, or what fits the data."""
        spec = charts.Spec(kind, agg, stack, horizontal, bins, sort, log, title, x_label, y_label, format, height)
        source = charts.make(data, spec, x, y, color, size)
        return self.put_chart(source)

    def put_chart(self, source):
        board = self.board
        node = source.node(board.px)
        key = board.put(node, self.place)
        board.shown.charts[key] = source
        for note in source.notes:
            board.note(note)
        return Element(f"chart {node.get('title') or node['kind']!r}")

    def _chart(self, kind, data, x, y, color, rest):
        options = {k: rest[k] for k in AGG_KEYWORDS if k in rest}
        return self.chart(data, kind, x, y, color, size=rest.get("size"), **options)

    def line_chart(self, data=None, *, x=None, y=None, color=None, **rest):
        return self._chart("line", data, x, y, color, rest)

    def area_chart(self, data=None, *, x=None, y=None, color=None, **rest):
        return self._chart("area", data, x, y, color, rest)

    def bar_chart(self, data=None, *, x=None, y=None, color=None, **rest):
        return self._chart("bar", data, x, y, color, rest)

    def scatter_chart(self, data=None, *, x=None, y=None, color=None, **rest):
        return self._chart("scatter", data, x, y, color, rest)

    def histogram(self, data=None, x=None, *, color=None, **rest):
        return self._chart("histogram", data, None, x if x is not None else rest.pop("y", None), color, rest)

    def box_plot(self, data=None, *, x=None, y=None, color=None, **rest):
        return self._chart("box", data, x, y, color, rest)

    def heatmap(self, data=None, *, x=None, y=None, color=None, **rest):
        return self._chart("heatmap", data, x, y, color, rest)

    def pie_chart(self, data=None, *, x=None, y=None, color=None, **rest):
        if x is None:
            x, color = color, None
        return self._chart("pie", data, x if x is not None else rest.get("names"),
                           y if y is not None else rest.get("values"), None, rest)

    # ---- figures of other libraries ----

    def pyplot(self, fig=None, clear_figure=None, **rest):
        """A figure of matplotlib; without one the present figure."""
        return pictures.show_figure(self, fig, clear_figure)

    def figure(self, fig=None, **rest):
        """A figure of matplotlib, Plotly or Altair."""
        if fig is None or frames.figure_of(fig) is not None:
            return pictures.show_figure(self, fig, None)
        return values.show(self, fig)

    def plotly_chart(self, figure_or_data, **rest):
        from . import plotly

        return plotly.show(self, figure_or_data)

    def altair_chart(self, altair_chart, **rest):
        from . import vega

        return vega.show(self, altair_chart.to_dict() if hasattr(altair_chart, "to_dict") else altair_chart)

    def vega_lite_chart(self, data=None, spec=None, **rest):
        from . import vega

        if spec is None and isinstance(data, dict):
            data, spec = None, data
        return vega.show(self, spec or {}, data)

    def image(self, image, caption=None, width=None, **rest):
        """A picture: a path, bytes, an array or one of PIL."""
        many = image if isinstance(image, (list, tuple)) else [image]
        captions = caption if isinstance(caption, (list, tuple)) else [caption] * len(many)
        for one, text in zip(many, captions):
            pictures.show_image(self, one, text, width)
        return Element("image")

    # ---- tables ----

    def table(self, data=None, *, columns=None, format=None, height=None, sort=None, index="auto", title=None,
              column_config=None, hide_index=None, column_order=None, **rest):
        """A table with pages, sorting, filters and search, all of them done in the sandbox."""
        if frames.is_styler(data):
            data = data.data
        if data is None:
            raise Teach("table: give a DataFrame")
        if frames.is_figure(data):
            return self.pyplot(data)
        shown = tables.Table(data, columns, format, height, sort, index, title, column_config, bool(hide_index),
                             column_order)
        board = self.board
        key = board.put(shown.node(), self.place)
        board.shown.tables[key] = shown
        return Element(f"table of {len(shown.frame):,} rows")

    dataframe = table

    def data_editor(self, data=None, **rest):
        """The table, to be read only."""
        self.board.note("data_editor shows the table; it cannot be edited here.")
        self.table(data, **{k: v for k, v in rest.items() if k not in ("num_rows", "disabled", "key")})
        return data

    experimental_data_editor = data_editor
