#!/usr/bin/env python3
"""Random graphs in real TensorFlow and in Tide: values and gradients agree.

    python tests/peers/differential.py [--graphs N] [--seed S] [--build DIR]
                                       [--regions SHARE] [--counts FILE]

random_graphs.py makes the graphs. TensorFlow's values, and the gradients of a
weighted sum of all float results in the placeholders, are compared with what
differential.lua finds for the same GraphDef. Both run every node as it is,
nothing rewritten. Where an op's results may differ (ALLOWED), Tide runs the graph
again with TensorFlow's fed in their place, so that what follows is compared too.

Needs TensorFlow; not part of `make test`. Prints a line for each difference and
how often each op was drawn; --counts writes what came of each op.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from random_graphs import Recipes, grow

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 50

ANY, SIGN, NAN, ZERO, ROUGH = "any", "sign", "nan", "zero", "rough"

# op: how its results may differ from TensorFlow's, and why. SIGN: in the sign or
# phase of each element; NAN: where they are NaN here; ZERO: by being zeros here;
# ROUGH: as float32 may.
ALLOWED = {
    "Svd": (SIGN, "singular vectors have any sign; NaN stays NaN where "
                  "TensorFlow's complex ones are 0"),
    "Eig": (ANY, "eigenvalues have any order, their vectors any phase"),
    "SelfAdjointEigV2": (SIGN, "eigenvectors have any sign"),
    "Qr": (SIGN, "the columns of Q and the rows of R have any sign"),
    "TopKV2": (ANY, "where NaN comes among numbers"),
    "Bitcast": (ANY, "the last bit of what was rounded"),
    "CumulativeLogsumexp": (NAN, "NaN stays NaN; TensorFlow reads it as -inf"),
    "SegmentMin": (NAN, "NaN stays; TensorFlow loses it to what comes later"),
    "SegmentMax": (NAN, "as SegmentMin"),
    "UnsortedSegmentMin": (NAN, "as SegmentMin"),
    "UnsortedSegmentMax": (NAN, "as SegmentMin"),
    "ResourceScatterMin": (NAN, "as SegmentMin"),
    "ResourceScatterMax": (NAN, "as SegmentMin"),
    "ResourceScatterNdMin": (NAN, "as SegmentMin"),
    "ResourceScatterNdMax": (NAN, "as SegmentMin"),
    "TensorScatterMin": (NAN, "as SegmentMin"),
    "TensorScatterMax": (NAN, "as SegmentMin"),
    "CTCLoss": (ROUGH, "TensorFlow's float64 is right to seven digits"),
    "CTCBeamSearchDecoder": (ANY, "paths of one score come in any order"),
    "MatrixSolveLs": (ZERO, "without rows TensorFlow's is what the memory held"),
}

# Relative to the largest element of the result.
NEAR = {"bfloat16": 3e-2, "float16": 3e-2, "float32": 1e-3, "float64": 1e-8,
        "complex64": 1e-3, "complex128": 1e-8}


class Stats:
    """Counts by op, and of graphs."""

    def __init__(self):
        self.drawn, self.agreed, self.allowed, self.differed = (
            collections.Counter() for _ in range(4))
        self.refused = {}  # op: the last reason
        self.broken = []   # graphs that TensorFlow could not go on with
        self.graphs = self.wrong = self.gradients = self.cut = 0


# ---- comparing ---------------------------------------------------------------

def agree(check, want, got, coarse):
    """None, or how they differ."""
    want = np.asarray(want)
    if got is None:
        return "missing"
    if got.dtype == bool and want.dtype != bool and not want.any():
        return None  # no gradient where TensorFlow has one of zeros
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    if want.dtype.name not in NEAR:
        return None if np.array_equal(want, got) else \
            f"other values{shown(want, got)}"
    finite = np.abs(want[np.isfinite(want)])
    scale = max(float(finite.max(initial=0)), 1e-2)
    kind = check.source.dtype.name if check.source is not None else \
        want.dtype.name
    near = max(NEAR[kind], NEAR["float32"] if coarse else 0)
    with np.errstate(all="ignore"):
        if np.allclose(got / scale, want / scale, near, near, equal_nan=True):
            return None
        apart = np.abs(got.astype(complex) - want.astype(complex))
        off = np.max(apart[np.isfinite(apart)], initial=0)
    return f"off by {off:.3g}, the largest is {scale:.3g}{shown(want, got)}"


def shown(want, got):
    return f": {got.ravel()}, not {want.ravel()}" if want.size < 9 else ""


def may_differ(check, want, got, coarse):
    """Does ALLOWED say so of this difference?"""
    kind = ALLOWED[check.op][0] if check.op in ALLOWED else None
    want = np.asarray(want)
    if kind is None or got is None or got.shape != want.shape:
        return False
    if kind == ROUGH:
        return agree(check, want, got, True) is None
    if kind == SIGN:
        return agree(check, np.abs(want), np.abs(got), coarse) is None
    if kind == ZERO:
        return not got.any()
    if kind == NAN:
        there = ~np.isnan(got)
        return agree(check, want[there], got[there], coarse) is None
    return True


def settle(e, node):
    """Feeds TensorFlow's outputs of a node from now on; False: cannot."""
    outputs = e.outputs_of(node)
    if outputs is None or any(n == outputs[0][0] for n, _ in e.feeds):
        return False
    e.feeds += outputs
    return True


def compare(seed, e, got, stats):
    """Looks for the first difference in the order of the graph. True: all was
    compared; False: Tide is to run it again, with more fed."""
    for i, (c, want) in enumerate(zip(e.checks, e.values, strict=True)):
        have = got.get(f"r{i}")
        how = agree(c, want, have, e.coarse)
        if not how:
            continue
        if may_differ(c, want, have, e.coarse):
            stats.allowed[c.op] += 1
            if settle(e, c.source.op.name):
                return False
            stats.cut += 1
        else:
            stats.differed[c.op or "gradient"] += 1
            stats.wrong += 1
            print(f"seed {seed}: {c.label}: {how}")
        return True
    stats.agreed.update(c.op for c in e.checks if c.op)
    stats.gradients += sum(c.op is None for c in e.checks)
    return True


# ---- running Tide ------------------------------------------------------------

def ask(e, path):
    """Writes what differential.lua reads beside the graph."""
    np.savez(path.with_suffix(".npz"),
             **{f"f{i}": v for i, (_, v) in enumerate(e.feeds)})
    lines = [f"fetch {c.tensor.name}" for c in e.checks
             if not c.label.startswith("gradient of ")]
    lines += [f"feed {name}" for name, _ in e.feeds]
    lines += [f"loss {e.loss}"] if e.loss else []
    lines += [f"gradient {name}" for name in e.gradients]
    path.with_suffix(".txt").write_text("\n".join(lines) + "\n", "utf-8")


def refused(seed, e, text, stats):
    """Tide gave an error. True: that is all; False: to be run again."""
    words = text.split()
    op, node = words[0], words[1]
    if op in ALLOWED and settle(e, node):
        stats.allowed[op] += 1
        return False
    stats.wrong += 1
    stats.differed[op] += 1
    print(f"seed {seed}: refused: {text}")
    return True


def rounds(expected, folder, tide, stats):
    """Runs graphs until everything is compared."""
    while expected:
        for seed, e in expected.items():
            ask(e, folder / f"{seed}")
        r = subprocess.run(
            [tide, str(HERE / "differential.lua"), str(folder),
             *[str(s) for s in expected]],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)
        if r.returncode < 0:
            print(f"Tide ended by signal {-r.returncode}")
        errors = dict(line.split(": ", 1) for line in r.stdout.splitlines()
                      if line.startswith("seed "))
        again = {}
        for seed, e in expected.items():
            path = folder / f"{seed}.out.npz"
            if path.exists():
                with np.load(path) as got:
                    done = compare(seed, e, dict(got), stats)
                path.unlink()
            else:
                text = errors.get(f"seed {seed}", "? ? nothing came back")
                done = refused(seed, e, text, stats)
            if not done:
                again[seed] = e
        expected = again


def batch(recipes, seeds, tide, stats):
    with tempfile.TemporaryDirectory() as out:
        folder, expected = pathlib.Path(out), {}
        for seed in seeds:
            found = grow(recipes, seed, folder / f"{seed}.pb", stats)
            if found:
                expected[seed] = found
        stats.graphs += len(expected)
        rounds(expected, folder, tide, stats)


def report(recipes, stats):
    for n in recipes.names:
        if not stats.drawn[n]:
            why = stats.refused.get(n, "no case for it")
            print(f"never drawn: {n}: {why}")
    for text in stats.broken:
        print(f"not made: {text}")
    for n, k in stats.allowed.items():
        print(f"allowed: {n} {k} times: {ALLOWED[n][1]}")
    for n, k in stats.differed.items():
        print(f"differed: {n} {k} times")
    least = min((stats.drawn[n], n) for n in recipes.names)
    print(f"{len(recipes.names)} ops, {sum(stats.drawn.values())} draws, "
          f"the least {least[1]} {least[0]} times; "
          f"{sum(stats.agreed.values())} results and {stats.gradients} sums and "
          f"gradients agree, {stats.cut} graphs compared in part")
    print(f"{stats.graphs - stats.wrong} passed, {stats.wrong} failed, "
          "0 skipped")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default="build")
    parser.add_argument("--regions", type=float, default=0.15,
                        help="of all draws, functions, branches and loops")
    parser.add_argument("--counts", help="a line an op: drawn, agreed, allowed, "
                        "differed, the last three in results")
    args = parser.parse_args()
    recipes, stats = Recipes(args.build, ALLOWED, args.regions), Stats()
    tide = str(pathlib.Path(args.build, "tide"))
    for first in range(args.seed, args.seed + args.graphs, BATCH):
        last = min(first + BATCH, args.seed + args.graphs)
        batch(recipes, range(first, last), tide, stats)
        sys.stdout.flush()
    report(recipes, stats)
    if args.counts:
        pathlib.Path(args.counts).write_text("".join(
            f"{n} {stats.drawn[n]} {stats.agreed[n]} {stats.allowed[n]} "
            f"{stats.differed[n]}\n" for n in recipes.names), "utf-8")
    return 1 if stats.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
