#!/usr/bin/env python3
"""run.py - tests of notebooks in JupyterLab and Chromium: run.py [BUILD]

SPDX-License-Identifier: Apache-2.0
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    sys.path.insert(0, os.path.join(HERE, "../notebook"))
    import run # pylint: disable=import-outside-toplevel
    return run.main(HERE, "journey*.py")


if __name__ == "__main__":
    sys.exit(main())
