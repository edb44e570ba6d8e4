#!/usr/bin/env python3
"""What travels to a machine with a GPU: programs, libraries, tests, in one folder.

That machine may have none of Tide's Debian packages and no compiler for it, so
the folder holds what ldd names, but for the C library's own; there `./gpu` runs
the whole list (gpu.py) and `./gpu --bench` the benchmarks (tests/bench/gpu.py).
It must stay below 64 MiB, which is what such a machine is sent.

usage: gpu_tree.py BUILD PLUGIN FOLDER
SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MOST = 64 << 20
PROGRAMS = ["tests/rows/rows", "tests/engine/run/random_graphs", "tests/engine/run/session",
            "tests/engine/run/stops"]
FILES = ["tests/cuda", "tests/golden", "tests/lua", "tests/bench", "tests/rows", "tests/run.py",
         "tests/skips.txt", "tests/modes.txt", "tutorials", "README.md", "LICENSE"]
# Of the C library; a machine has its own.
OWN = re.compile(r"(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv)\.so")

START = """#!/bin/sh
# The whole list, or with --bench the benchmarks: see tests/cuda/gpu.py.
cd "$(dirname "$0")" || exit 1
if [ "$1" = --bench ]; then
  shift
  exec python3 tests/bench/gpu.py "$@"
fi
exec python3 tests/cuda/gpu.py "$@"
"""


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def copy_tree(folder):
    """Files as git has them: what is not in it does not travel."""
    for name in output("git", "ls-files", "-z", *FILES).split("\0"):
        if name and os.path.exists(os.path.join(ROOT, name)):
            to = os.path.join(folder, name)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), to)


def copy_programs(build, plugin, folder):
    pairs = [(os.path.join(build, "tide"), "tide"), (plugin, "libtide_cuda.so")]
    library = os.path.realpath(os.path.join(build, "libtide.so"))
    pairs.append((library, os.path.basename(library)))
    pairs += [(os.path.join(build, name), name) for name in PROGRAMS]
    for source, name in pairs:
        to = os.path.join(folder, "build", name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(source, to)
        subprocess.run(["strip", to], check=True)
    link = os.path.join(folder, "build/libtide.so")
    if os.path.basename(library) != "libtide.so":
        os.symlink(os.path.basename(library), link)
    return [source for source, _ in pairs]


def copy_libraries(sources, folder):
    beside = os.path.join(folder, "build/lib")
    os.makedirs(beside)
    for name in os.listdir(os.path.join(folder, "build")):
        if name.startswith("libtide.so."):  # for a plugin of another folder
            os.symlink(os.path.join("..", name), os.path.join(beside, name))
    for source in sources:
        for name, path in re.findall(r"(\S+) => (/\S+)", output("ldd", source)):
            if not OWN.match(name) and "libtide" not in name:
                shutil.copy(path, os.path.join(beside, name))
    for path in ("/usr/share/lua/5.4/luaunit.lua", "/usr/share/lua/5.3/luaunit.lua"):
        if os.path.exists(path):
            shutil.copy(path, beside)
            break


def size(folder):
    return sum(os.lstat(os.path.join(at, name)).st_size
               for at, _, names in os.walk(folder) for name in names)


def main():
    build, plugin, folder = (os.path.abspath(path) for path in sys.argv[1:4])
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    copy_tree(folder)
    copy_libraries(copy_programs(build, plugin, folder), folder)
    start = os.path.join(folder, "gpu")
    with open(start, "w", encoding="utf-8") as f:
        f.write(START)
    os.chmod(start, 0o755)
    n = size(folder)
    print(f"{folder}: {n / (1 << 20):.1f} MiB")
    if n > MOST:
        sys.exit(f"that is more than {MOST >> 20} MiB")


if __name__ == "__main__":
    main()
