#!/usr/bin/env python3
"""run.py - tests of the prompt in a terminal emulator: run.py [BUILD [FILE]]

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(HERE))
import timed # pylint: disable=wrong-import-position

if __name__ == "__main__":
    sys.exit(timed.main(HERE, "*.py"))
