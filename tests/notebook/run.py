#!/usr/bin/env python3
"""run.py - tests of notebooks with the tools of others: run.py [BUILD [FILE]]

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def main(here, pattern):
    """Runs the tests in a folder, in the files that the pattern means."""
    os.environ["TIDE_BUILD"] = sys.argv[1] if len(sys.argv) > 1 else "build"
    pattern = sys.argv[2] if len(sys.argv) > 2 else pattern
    suite = unittest.TestLoader().discover(here, pattern=pattern)
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    # A test may have failed in several of its subtests.
    bad = len({test.id().split(" ")[0]
               for test, _ in result.failures + result.errors})
    for test, why in result.skipped:
        print(f"skip: {test.id()}: {why}")
    good = max(result.testsRun - bad - len(result.skipped), 0)
    print(f"{good} passed, {bad} failed, {len(result.skipped)} skipped")
    return 1 if bad or not result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main(HERE, "[!rs]*.py"))
