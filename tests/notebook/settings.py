"""settings.py - where things are, and a home of the tests' own.

Each run has a folder with the kernelspec and all that Jupyter writes; nothing
of the user's is seen or touched.

SPDX-License-Identifier: Apache-2.0
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("TIDE_BUILD",
                                       os.path.join(ROOT, "build")))
TIDE = os.path.join(BUILD, "tide")
BIN = os.path.dirname(sys.executable)
TUTORIALS = sorted(os.path.join(ROOT, "tutorials", name)
                   for name in os.listdir(os.path.join(ROOT, "tutorials"))
                   if name.endswith(".ipynb"))


class Home:
    """A folder for one test, with the kernel installed in it."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="tide-test-")
        self.env = dict(
            os.environ, HOME=self.dir,
            PATH=BIN + os.pathsep + os.environ["PATH"],
            JUPYTER_DATA_DIR=self.path("data"),
            JUPYTER_CONFIG_DIR=self.path("config"),
            JUPYTER_RUNTIME_DIR=self.path("runtime"),
            JUPYTER_PLATFORM_DIRS="0", IPYTHONDIR=self.path("ipython"),
            JUPYTER_PREFER_ENV_PATH="0") # our kernelspec, not the environment's
        for name in list(self.env):
            if name.startswith("XDG_") or name in ("TIDE_DATA", "JUPYTER_PATH"):
                del self.env[name]
        subprocess.run([TIDE, "install-kernel"], env=self.env, check=True,
                       stdout=subprocess.DEVNULL)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def run(self, *words, **how):
        """A program of the virtual environment; its outcome with its output."""
        how.setdefault("timeout", 300)
        return subprocess.run(words, env=self.env, cwd=self.dir, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False, **how)

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)
