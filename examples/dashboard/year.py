# "How warm is an ordinary year in Seattle, hour by hour?" A long series: zoom in for single hours.
import pandas as pd
import scb

normals = pd.read_csv("/mnt/data/seattle-weather-hourly-normals.csv", parse_dates=["date"])

scb.title("An ordinary year in Seattle")
scb.caption("Hourly climate normals 1981-2010, NOAA")
what = scb.segmented_control("Measure", ["temperature", "pressure", "wind"], default="temperature")
hours = scb.slider("Hours of the day", 0, 23, (0, 23))
smooth = scb.select_slider("Mean over", ["1 hour", "1 day", "1 week"], value="1 hour")

unit = {"temperature": "°C", "pressure": "hPa", "wind": "m/s"}[what]
inside = normals[normals["date"].dt.hour.between(*hours)]
series = inside.set_index("date")[what]
if smooth != "1 hour":
    series = series.resample({"1 day": "D", "1 week": "W"}[smooth]).mean()

a, b, c = scb.columns(3)
a.metric("Mean", f"{series.mean():.1f} {unit}")
b.metric("Lowest", f"{series.min():.1f} {unit}")
c.metric("Highest", f"{series.max():.1f} {unit}")

scb.chart(series, kind="line", title=f"{what.capitalize()}, {unit}")
left, right = scb.columns(2)
hour_of_month = normals.pivot_table(index=normals["date"].dt.month_name().str[:3], columns=normals["date"].dt.hour,
                                    values=what, sort=False)
left.chart(hour_of_month, kind="heatmap", title=f"{what.capitalize()} by month and hour")
right.chart(inside.assign(month=inside["date"].dt.month_name().str[:3]), kind="box", x="month", y=what,
            title=f"{what.capitalize()} by month, {unit}")
scb.table(inside)
