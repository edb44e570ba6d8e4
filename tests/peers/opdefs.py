#!/usr/bin/env python3
"""The signatures of TensorFlow's ops, as its own registry has them.

    python tests/peers/opdefs.py [OP ...]
    python tests/peers/opdefs.py --check

The first adds ops to tests/golden/opdefs.json, which tests/engine/graph/
signatures.c reads, or writes their rows anew; without names, all that are
registered here (as build/tide says) and that TensorFlow has.
The second tells rows that are not what the registry at hand says, and ops that
have none. A row is a line, so that what changes shows.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import json
import os
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from google.protobuf import json_format  # noqa: E402
from tensorflow.core.framework import types_pb2  # noqa: E402
from tensorflow.python.framework import op_def_registry  # noqa: E402
import tensorflow as tf  # noqa: E402,F401  (registers them)

TABLE = os.path.join(os.path.dirname(__file__), "..", "golden", "opdefs.json")
FLAGS = ("is_commutative", "is_aggregate", "is_stateful")


def dtype(number):
    return types_pb2.DataType.Name(number).removeprefix("DT_").lower()


def attr_value(kind, v):
    """A default, or the part of a list that is one."""
    if kind.startswith("list("):
        part = {"int": "i", "float": "f", "bool": "b", "string": "s",
                "type": "type", "shape": "shape"}[kind[5:-1]]
        return [plain(kind[5:-1], x) for x in getattr(v.list, part)]
    part = {"int": "i", "float": "f", "bool": "b", "string": "s"}
    return plain(kind, getattr(v, part.get(kind, kind)))


def plain(kind, x):
    if kind == "type":
        return dtype(x)
    if kind == "string":
        return x.decode()
    if kind in ("shape", "tensor"):
        return json_format.MessageToDict(x)
    return x


def argument(a):
    out = {"name": a.name}
    if a.type:
        out["type"] = dtype(a.type)
    for key in ("type_attr", "number_attr", "type_list_attr"):
        if getattr(a, key):
            out[key] = getattr(a, key)
    if a.is_ref:
        out["ref"] = True
    return out


def attribute(a):
    out = {"name": a.name, "type": a.type}
    if a.HasField("default_value"):
        out["default"] = attr_value(a.type, a.default_value)
    if a.has_minimum:
        out["minimum"] = a.minimum
    if a.HasField("allowed_values"):
        strings = a.allowed_values.list.s
        out["allowed"] = [s.decode() for s in strings] or \
            [dtype(t) for t in a.allowed_values.list.type]
    return out


def row(op):
    out = {"inputs": [argument(a) for a in op.input_arg],
           "outputs": [argument(a) for a in op.output_arg],
           "attrs": [attribute(a) for a in op.attr]}
    for flag in FLAGS:
        if getattr(op, flag):
            out[flag] = True
    return out


# ---- the table ---------------------------------------------------------------

def registered():
    """Types of the ops that build/tide has."""
    program = 'print(table.concat(require "tide.core".op_names(), " "))'
    return subprocess.run(["build/tide", "-e", program], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.split()


def write(table):
    rows = [f"{json.dumps(k)}: " + json.dumps(v, separators=(",", ":"))
            for k, v in sorted(table.items())]
    with open(TABLE, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(rows) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("ops", nargs="*")
    o = parser.parse_args()
    with open(TABLE, encoding="utf-8") as f:
        table = json.load(f)
    here = [n for n in registered() if op_def_registry.get(n)]
    missing = sorted(set(here) - set(table))
    if o.check:
        sys.exit(check(table, missing))
    for name in o.ops or missing:
        table[name] = row(op_def_registry.get(name))
    write(table)
    print("written:", *(o.ops or missing))


def check(table, missing):
    """How many rows are wrong or missing; those of ops that this TensorFlow
    has no more are not looked at."""
    bad = 0
    for name, have in table.items():
        op = op_def_registry.get(name)
        if op and row(op) != have:
            bad += 1
            print(f"{name}: {json.dumps(row(op))}\n  here: {json.dumps(have)}")
    for name in missing:
        print(f"{name}: has no row")
    return bad + len(missing)


if __name__ == "__main__":
    main()
