"""attack.py: what the attacks of this folder have in common: a broker to attack, and its audit log.

Each case states the effect that an attack must not have and the event that must stand in the log
afterwards, with its OWASP ids. Loops are bounded by number and time."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402

# What an event must at least bear on (docs/threat-model.md has the reasons).
OWASP = {
    "exec.start": {"ASI05", "T11"},
    "exec.end": {"ASI05", "T11"},
    "tool.call": {"ASI02", "T2"},
    "tool.end": {"ASI02", "T2"},
    "file.present": {"ASI02", "ASI05", "T2", "T11"},
    "file.refused": {"ASI02", "ASI05", "T2", "T11"},
    "handle.foreign": {"ASI03", "ASI07", "T9", "T16"},
    "link.auth_failed": {"ASI03", "ASI07", "T9", "T16"},
    "session.open": {"ASI06", "T1", "T12"},
    "session.close": {"ASI06", "T1", "T12"},
    "session.lost": {"ASI06", "T1", "T12"},
}
LIMIT = {"ASI02", "ASI08", "T4"}  # what also an exec.end bears on whose reason is a limit

# Swaps two names of its folder for so many seconds: the attack on everything that looks at a name twice.
SWAP = r"""
import ctypes, sys, time
a, b, seconds = sys.argv[1].encode(), sys.argv[2].encode(), float(sys.argv[3])
rename = ctypes.CDLL(None, use_errno=True).renameat2
end, n = time.monotonic() + seconds, 0
print('swapping', flush=True)
while time.monotonic() < end:
    for _ in range(200):
        n += rename(-100, a, -100, b, 2) == 0
print(n)
"""


class Attack(harness.Case):
    def audited(self, event, seen=0, **members):
        """The events of that name with these members, of those after the first `seen`; there is one at
        least, and each bears the ids of its name."""
        found = [e for e in self.place.audit()[seen:]
                 if e["event"] == event and all(e.get(k) == v for k, v in members.items())]
        self.assertTrue(found, f"no {event} with {members} in the audit log")
        for e in found:
            self.assertLessEqual(OWASP[event], set(e["owasp"]), e)
            self.assertEqual(harness.PROVIDER, e.get("provider"), e)
        return found

    def seen(self):
        return len(self.place.audit())

    def files(self, action, **arguments):
        return self.client.tool("files", action=action, **arguments)

    def put(self, path, content, **arguments):
        r = self.files("write", path=path, content=content, **arguments)
        self.assertFalse(r.is_error, r.text)

    def swapping(self, a, b, seconds, session):
        """A job that swaps a and b; it has begun."""
        job = self.client.tool("run_command", argv=["python3", "-c", SWAP, a, b, str(seconds)], session=session, wait_s=0)
        self.assertTrue(harness.until(
            lambda: "swapping" in (self.client.tool("job", action="wait", job=job.job, wait_s=0).stdout or ""), 20), str(job))
        return job.job
