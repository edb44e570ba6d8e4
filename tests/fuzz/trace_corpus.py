#!/usr/bin/env python3
"""trace_corpus - makes tests/fuzz/corpus/trace: a trace of no events and one of three, as
engine/run/trace_pack.c has them, within what tests/fuzz/trace.c allows. With --check it only
looks whether the files are these."""
import os
import struct
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus/trace")
MAGIC = 0x32725474
STAYS, SENDS, RECEIVES = range(3)
NAMES = ["n", "Add", "/task:0/device:CPU:0", "", "x", "compute"]
TEXT = "".join(name + "\0" for name in NAMES).encode()
CLOCK = 1000  # ns that its clock is ahead


def place(name):
    at = NAMES.index(name)
    return sum(len(before) + 1 for before in NAMES[:at])


def event(i, way):
    value = "" if way == STAYS else "x"
    stream = "compute" if way == STAYS else ""
    return struct.pack("<6qQ5IihhI", CLOCK + i, CLOCK + i + 1, CLOCK + i + 5, i, 8, 16, 0,
                       place("n"), place("Add"), place("/task:0/device:CPU:0"), place(value),
                       place(stream), 0, i, way, 0)


def trace(*ways):
    events = b"".join(event(i, way) for i, way in enumerate(ways))
    return struct.pack("<IIQq", MAGIC, len(ways), len(TEXT), 0) + events + TEXT


def main():
    bad = 0
    for name, data in {"empty": trace(), "three": trace(SENDS, RECEIVES, STAYS)}.items():
        path = os.path.join(FOLDER, name)
        if sys.argv[1:] != ["--check"]:
            with open(path, "wb") as f:
                f.write(data)
            continue
        with open(path, "rb") as f:
            if f.read() != data:
                print(f"{path} is not what trace_corpus.py makes")
                bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
