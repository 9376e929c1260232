"""report.py: raw samples in, one line a figure out."""
import os
import statistics


def percentile(samples, fraction):
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * fraction))]


class Row:
    """One figure: ours and the peer's samples (or single values), and the bars of the design.

    bar: our median may be at most this.   ratio: at most this part of the peer's median.
    more: it is a figure of which more is better; ratio then is how many times the peer's it is at least.
    """

    def __init__(self, name, unit, ours, peer=None, bar=None, ratio=None, note="", more=False):
        self.name, self.unit, self.note, self.more = name, unit, note, more
        self.ours = ours if isinstance(ours, list) else [ours]
        self.peer = peer if isinstance(peer, list) or peer is None else [peer]
        self.bar, self.ratio = bar, ratio

    def _text(self, samples):
        if not samples:
            return "–"
        values = [statistics.median(samples)]
        if len(samples) > 1:
            values += [percentile(samples, 0.95), percentile(samples, 0.99)]
        return " / ".join(_number(v) for v in values) + " " + self.unit

    def line(self):
        ours = statistics.median(self.ours)
        theirs = statistics.median(self.peer) if self.peer else None
        times = (ours / theirs if self.more else theirs / ours) if theirs and ours else None
        least = None if self.ratio is None else self.ratio if self.more else 1 / self.ratio
        bars, met = [], True
        if self.bar is not None:
            bars.append(f"≤ {_number(self.bar)} {self.unit}")
            met = met and ours <= self.bar
        if least is not None:
            bars.append(f"≥ {least:.0f} times" if self.more else f"≤ 1/{least:.0f}")
            met = met and times is not None and times >= least
        parts = [
            f"{self.name:<46}",
            f"{self._text(self.ours):>27}",
            f"{self._text(self.peer):>27}",
            f"{(('%.1f' if self.more else '1/%.1f') % times) if times else '–':>8}",
            f"{', '.join(bars) or '–':>18}",
            f"{('met' if met else 'NOT MET') if bars else '':<8}",
            f"n {len(self.ours)}" + (f"  {self.note}" if self.note else ""),
        ]
        return " ".join(parts).rstrip()


def header(peer):
    load = " ".join(f"{x:.2f}" for x in os.getloadavg())
    print(f"p50 / p95 / p99. {os.cpu_count()} processors, load average {load}. The peer, in the same run and in turn "
          f"with ours: {peer}.")
    print(f"{'figure':<46} {'ours':>27} {'peer':>27} {'ratio':>8} {'bar':>18}", flush=True)


def _number(v):
    return f"{v:.3f}" if abs(v) < 1 else f"{v:.2f}" if abs(v) < 100 else f"{v:.0f}"
