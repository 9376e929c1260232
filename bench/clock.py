"""clock.py: how long something took, without what the client itself spent on it.

What a client computes (its JSON, its system calls) is no cost of the server that it calls. Both
clients here are Python, and theirs differ by much: so of each interval the processor time that this
process used within it is subtracted, for ours and for the peer alike. The wake-ups of both sides
stay in: nobody gets an answer without them.
"""
import time


class Stopwatch:
    """with Stopwatch() as w: …; w.net and w.raw are seconds."""

    def __enter__(self):
        self._cpu = time.process_time()
        self._began = time.perf_counter()
        return self

    def __exit__(self, *exc):
        self.raw = time.perf_counter() - self._began
        self.net = max(self.raw - (time.process_time() - self._cpu - _own), 0.0)


def _calibrate():
    """What reading the clocks adds to the processor time itself."""
    spans = []
    for _ in range(2000):
        cpu = time.process_time()
        time.perf_counter()
        time.perf_counter()
        spans.append(time.process_time() - cpu)
    return sorted(spans)[len(spans) // 2]


_own = _calibrate()
