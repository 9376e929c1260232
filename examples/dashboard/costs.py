# "Where does the money go?" Categories and money: what is dear, what is only frequent.
import pandas as pd
import scb

strikes = pd.read_csv("/mnt/data/birdstrikes.csv")
money = {"repair": "Cost Repair", "other": "Cost Other", "total": "Cost Total $"}

scb.title("What bird strikes cost")
by = scb.radio("By", ["Wildlife Species", "Phase of flight", "Aircraft Airline Operator", "Origin State"])
kind = scb.selectbox("Cost", list(money), index=2)
top = scb.number_input("Rows", 3, 30, 12)
known = scb.checkbox("Without the unknown", True)

column = money[kind]
rows = strikes[strikes[column] > 0]
if known:
    rows = rows[~rows[by].fillna("Unknown").str.contains("unknown", case=False)]
table = rows.groupby(by)[column].agg(strikes="count", total="sum", worst="max").sort_values("total", ascending=False)
table["share"] = table["total"] / table["total"].sum()

a, b, c = scb.columns(3)
a.metric("Paid", table["total"].sum(), format="USD")
b.metric("Strikes with a cost", int(table["strikes"].sum()))
c.metric("Dearest", str(table.index[0]) if len(table) else "none")

first = table.head(int(top)).reset_index()
left, right = scb.columns([3, 2])
left.chart(first, kind="bar", x=by, y="total", horizontal=True, title=f"Total by {by.lower()}", format="USD")
right.chart(first, kind="scatter", x="strikes", y="worst", size="total", log="y", title="How often, and the worst one")
scb.table(table.reset_index(), format={"total": "USD", "worst": "USD", "share": "percent"})
