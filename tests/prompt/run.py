#!/usr/bin/env python3
"""run.py - tests of the prompt in a terminal emulator: run.py [BUILD [FILE]]

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    os.environ["TIDE_BUILD"] = sys.argv[1] if len(sys.argv) > 1 else "build"
    pattern = sys.argv[2] if len(sys.argv) > 2 else "*.py"
    suite = unittest.TestLoader().discover(HERE, pattern=pattern)
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    wrong = [test for test, _ in result.failures + result.errors]
    bad = len({getattr(test, "test_case", test) for test in wrong})
    print(f"{result.testsRun - bad} passed, {bad} failed, 0 skipped")
    return 1 if bad or not result.testsRun else 0


if __name__ == "__main__":
    sys.exit(main())
