"""timed.py - runs a folder's unittest files and prints what run.py reads: the
tests that took long, the skips, the counts.

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
import time
import unittest


class Result(unittest.TextTestResult):
    def startTest(self, test):
        self.began = time.time()
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        if time.time() - self.began > 0.5:
            print(f"{test.id()}: {time.time() - self.began:.1f} s", flush=True)


def main(here, pattern):
    """Runs what the pattern means in a folder; arguments: [BUILD [PATTERN]]."""
    os.environ["TIDE_BUILD"] = sys.argv[1] if len(sys.argv) > 1 else "build"
    pattern = sys.argv[2] if len(sys.argv) > 2 else pattern
    suite = unittest.TestLoader().discover(here, pattern=pattern)
    result = unittest.TextTestRunner(verbosity=0, resultclass=Result).run(suite)
    # A test may have failed in several of its subtests.
    bad = len({test.id().split(" ")[0]
               for test, _ in result.failures + result.errors})
    for test, why in result.skipped:
        print(f"skip: {test.id()}: {why}")
    good = max(result.testsRun - bad - len(result.skipped), 0)
    print(f"{good} passed, {bad} failed, {len(result.skipped)} skipped")
    return 1 if bad or not result.testsRun else 0
