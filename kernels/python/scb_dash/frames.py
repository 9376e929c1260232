"""What kind of value this is, asked without importing any of the libraries that it may be of."""

import sys


def _is(value, module, name):
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def is_frame(value):
    return _is(value, "pandas", "DataFrame")


def is_series(value):
    return _is(value, "pandas", "Series")


def is_index(value):
    return _is(value, "pandas", "Index")


def is_array(value):
    return _is(value, "numpy", "ndarray")


def is_groupby(value):
    return _is(value, "pandas.core.groupby", "GroupBy")


def is_styler(value):
    return type(value).__name__ == "Styler" and hasattr(value, "data")


def is_figure(value):
    return _is(value, "matplotlib.figure", "Figure")


def figure_of(value):
    """The matplotlib figure that a figure, its axes or an artist belong to; None of other values."""
    module = type(value).__module__
    if is_figure(value):
        return value
    if is_array(value) and value.dtype == object and value.size:
        return figure_of(value.flat[0])
    if isinstance(value, (list, tuple)) and value:  # what plot() and hist() return
        last = value[-1]
        if type(last).__module__ == "matplotlib.container" or all(type(v).__module__.startswith("matplotlib.") for v in value):
            return figure_of(last)
    if module.startswith(("matplotlib", "seaborn", "pandas.plotting")):
        figure = getattr(value, "figure", None) or getattr(value, "fig", None)
        return figure if is_figure(figure) else None
    return None


def is_plotly(value):
    return type(value).__module__.startswith("plotly.") and hasattr(value, "to_plotly_json")


def is_altair(value):
    return type(value).__module__.startswith("altair.") and hasattr(value, "to_dict")


def to_frame(value):
    """A DataFrame of pandas from what is one in another library, or can be one; None where not."""
    if is_frame(value):
        return value
    module = type(value).__module__.split(".")[0]
    pandas = sys.modules.get("pandas")
    if is_series(value):
        return value.to_frame(value.name if value.name is not None else "value")
    if is_styler(value):
        return value.data
    if module == "polars":
        value = value.collect() if hasattr(value, "collect") else value
        return value.to_pandas()
    if module == "pyarrow" and hasattr(value, "to_pandas"):
        return value.to_pandas()
    if module == "duckdb" or module == "_duckdb":
        return value.df()
    if hasattr(type(value), "__dataframe__") and pandas is not None:
        return pandas.api.interchange.from_dataframe(value)
    if not _could_be(value):
        return None
    if pandas is None:
        import pandas
    try:
        return pandas.DataFrame(value)
    except Exception:
        return None


def _could_be(value):
    """A list of dictionaries or rows, a dictionary of columns, an array of one or two dimensions."""
    if is_array(value):
        return value.ndim in (1, 2)
    if is_index(value):
        return True
    if isinstance(value, (list, tuple)):
        return bool(value) and isinstance(value[0], (dict, list, tuple))
    if isinstance(value, dict):
        return bool(value) and all(
            isinstance(v, (list, tuple, dict)) or is_series(v) or is_array(v) for v in value.values()
        )
    return False


def is_tabular(value):
    """Is it a table already, not only something of which one can be made?"""
    module = type(value).__module__.split(".")[0]
    return (
        is_frame(value)
        or is_styler(value)
        or (module in ("polars", "pyarrow", "duckdb", "_duckdb") and not isinstance(value, type)
            and (hasattr(value, "to_pandas") or hasattr(value, "df") or hasattr(value, "collect")))
        or hasattr(type(value), "__dataframe__")
    )


def scalar(value):
    """A Python value of numpy's and pandas' scalars; None of what is missing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "shape", None) == ():
        value = item()
    return None if isinstance(value, float) and value != value else value
