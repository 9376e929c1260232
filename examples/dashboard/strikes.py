# What a model writes when it is asked: "Let me explore the bird strikes: by size, by year, by what they cost."
import pandas as pd
import streamlit as st

strikes = pd.read_csv("/mnt/data/birdstrikes.csv", parse_dates=["Flight Date"])
strikes = strikes.rename(columns={"Flight Date": "date", "Wildlife Size": "size", "Cost Total $": "cost",
                                  "Speed IAS in knots": "speed", "Phase of flight": "phase",
                                  "Effect Amount of damage": "damage", "Time of day": "time",
                                  "Origin State": "state", "Wildlife Species": "species"})

st.title("Bird strikes")
st.caption("Wildlife strikes on aircraft in the United States, as reported to the FAA")
sizes = st.multiselect("Size", ["Small", "Medium", "Large"], default=["Small", "Medium", "Large"])
states = st.selectbox("State", ["all", *sorted(strikes["state"].dropna().unique())])
least = st.slider("Cost at least", 0, 100000, 0, 1000, format="$%d")
period = st.date_range("Period", strikes["date"])
by_day = st.toggle("Daytime only")

chosen = strikes[strikes["size"].isin(sizes) & (strikes["cost"] >= least)]
chosen = chosen[chosen["date"].between(pd.Timestamp(period[0]), pd.Timestamp(period[1]))]
if states != "all":
    chosen = chosen[chosen["state"] == states]
if by_day:
    chosen = chosen[chosen["time"] == "Day"]

a, b, c, d = st.columns(4)
a.metric("Strikes", len(chosen))
b.metric("Cost", chosen["cost"].sum(), format="USD", chart=chosen.groupby(chosen["date"].dt.year)["cost"].sum())
c.metric("With a cost", int((chosen["cost"] > 0).sum()))
d.metric("Median speed", chosen["speed"].median(), format="%.0f kt")

month = chosen.groupby([pd.Grouper(key="date", freq="M"), "size"]).size().reset_index(name="strikes")
left, right = st.columns([2, 1])
left.chart(month, kind="area", x="date", y="strikes", color="size", title="Strikes a month")
right.chart(chosen["size"].value_counts(), kind="pie", title="By size")

x, y, z = st.columns(3)
x.chart(chosen, kind="bar", x="damage", agg="count", title="Damage")
y.chart(chosen["speed"], kind="histogram", title="Speed, knots")
z.chart(chosen, kind="box", x="phase", y="speed", title="Speed by phase")

x, y = st.columns(2)
x.chart(chosen[chosen["cost"] > 0], kind="scatter", x="speed", y="cost", color="size", log="y", title="Speed and cost")
y.chart(pd.crosstab(chosen["phase"], chosen["time"]), kind="heatmap", title="Phase and time of day")
st.dataframe(chosen)
