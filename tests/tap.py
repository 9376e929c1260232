"""tap.py: runs unittest cases and prints TAP (one line a test, skips with their reason)."""
import os
import sys
import time
import traceback
import unittest


class _Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.slow = float(os.environ.get("SCB_TEST_SLOW", "3"))

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()
        self.sub_failed = False

    @staticmethod
    def _name(test):
        return (test.shortDescription() or test.id().split(".", 1)[-1]).replace("#", "")

    def _line(self, ok, name, directive=""):
        self.n += 1
        print(f"{'ok' if ok else 'not ok'} {self.n} - {name}{directive}", flush=True)

    def _fault(self, test, err):
        text = "".join(traceback.format_exception(*err))
        note = getattr(test, "explain", lambda: "")()
        for line in (text + note).splitlines():
            print("# " + line[:2000])

    def addSuccess(self, test):
        if self.sub_failed:
            return
        took = time.monotonic() - self.began
        self._line(True, self._name(test))
        if took > self.slow:
            print(f"# took {took:.1f} s")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        # setUpClass and its like come as tests of another type
        name = self._name(test) if isinstance(test, unittest.TestCase) else str(test)
        self._line(False, name)
        self._fault(test, err)

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.sub_failed = True
            self._line(False, f"{self._name(test)} {subtest._subDescription()}")
            self._fault(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        name = self._name(test) if isinstance(test, unittest.TestCase) else str(test)
        self._line(True, name, f" # SKIP {reason}")


def skip_all(reason):
    print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def main():
    """Runs the tests of __main__; words on the command line choose those whose id contains one."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    words = sys.argv[1:]
    chosen = unittest.TestSuite()

    def walk(s):
        for t in s:
            if isinstance(t, unittest.TestSuite):
                walk(t)
            elif not words or any(w in t.id() for w in words):
                chosen.addTest(t)

    walk(suite)
    result = _Result()
    chosen.run(result)
    print(f"1..{result.n}", flush=True)
    sys.exit(0 if not result.failures and not result.errors else 1)
