#!/usr/bin/env python3
"""Random graphs in real TensorFlow and in Tide: values and gradients agree.

    python tests/peers/differential.py [--graphs N] [--seed S] [--build DIR]

A graph grows op by op from three placeholders. Every op that has cases is drawn
(tests/peers/cases); a float input of the case is, more often than not, the case's
value plus a small function of something the graph already computed, so that ops
are fed by each other and stay within their domains. What TensorFlow refuses is
left out. TensorFlow's values, and the gradients of a weighted sum of all float
results in the placeholders, are compared with what tests/peers/differential.lua
finds for the same GraphDef. Both run every node as it is, nothing rewritten.

Needs TensorFlow; not part of `make test`. Prints a line for each difference and
how often each op was drawn.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import collections
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np

import golden
from golden import FLOATS, Run, Types, dtype_of, reason, session, tf, v1
from cases import OPS
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import op_def_registry, ops as tf_ops

HERE = pathlib.Path(__file__).resolve().parent
BATCH = 50

# op: why its results may differ from TensorFlow's.
ALLOWED = {
    "Svd": "singular vectors have any sign; what is not a number is refused",
    "SelfAdjointEigV2": "eigenvectors have any sign",
    "Qr": "the columns of Q and the rows of R have any sign",
    "TopKV2": "where NaN comes among numbers",
    "Bitcast": "the last bit of what was rounded",
    "CumulativeLogsumexp": "NaN stays NaN; TensorFlow reads it as -inf",
    "SegmentMin": "NaN stays NaN; TensorFlow loses it to what comes later",
    "SegmentMax": "as SegmentMin",
    "UnsortedSegmentMin": "as SegmentMin",
    "UnsortedSegmentMax": "as SegmentMin",
}

# (op, input): fed a constant, because TensorFlow's gradient leaves it out, or is
# uninitialised memory where there are no indices.
CONSTANT = {("PadV2", 2), ("SparseSegmentSumWithNumSegments", 0),
            ("SparseSegmentMeanWithNumSegments", 0),
            ("SparseSegmentSqrtNWithNumSegments", 0)}

# Not drawn: nothing to compare, or not for a graph of values.
LEFT_OUT = {
    "Placeholder", "PlaceholderWithDefault", "Const", "NoOp", "ControlTrigger",
    "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond",
    "Assert", "Print", "PrintV2",
}

# Relative to the largest element of the result.
NEAR = {"float16": 3e-2, "float32": 1e-3, "float64": 1e-8,
        "complex64": 1e-3, "complex128": 1e-8}


def drawable(name):
    op_def = op_def_registry.get(name)
    if op_def is None or op_def.is_stateful or name in LEFT_OUT:
        return False
    handles = {tf.resource.as_datatype_enum, tf.variant.as_datatype_enum}
    args = [*op_def.input_arg, *op_def.output_arg]
    return not any(a.type in handles for a in args)


class Recipes:
    """The ops to draw from, with their cases."""

    def __init__(self, build):
        self.names = sorted(n for n in golden.registered(build) if drawable(n))
        self.types = {}

    def draw(self, rng):
        """A Run: an op, a case, dtypes."""
        name = rng.choice(self.names)
        op_def = op_def_registry.get(name)
        if name not in self.types:
            self.types[name] = Types(op_def)
        types = self.types[name]
        good = [c for c in OPS[name].cases if not c.fails]
        if not good:
            return None
        case = rng.choice(good)
        pinned = {n: tf.as_dtype(v) for n, v in case.attrs.items()
                  if n in types.names}
        wide = case.types in ("sweep", None) and rng.random() < 0.8
        if wide:
            binding = types.base(pinned, tf.float64)
        else:
            binding = rng.choice(types.bindings(case, pinned) or [None])
        if binding is None:
            return None
        run = Run(op_def, case, binding)
        plain = all(isinstance(x, np.ndarray) for x in run.inputs)
        return run if plain and len(run.inputs) < 12 else None


class Grown:
    """A graph under way."""

    def __init__(self, rng, sess):
        self.rng, self.sess = rng, sess
        self.feeds, self.pool, self.checks, self.sums = {}, [], [], []
        self.drawn = []
        self.coarse = False  # some value was rounded to less than float64
        for i, shape in enumerate([(2, 3), (3,), (2, 2, 2)]):
            p = v1.placeholder(tf.float64, shape, f"x{i}")
            self.feeds[p] = np.array(
                [rng.uniform(-1, 1) for _ in range(int(np.prod(shape)))]
            ).reshape(shape)
            self.pool.append(p)

    def blend(self, value):
        """The case's value plus a little of what is there already."""
        n = value.size
        t = self.rng.choice(self.pool)
        if t.dtype != dtype_of(value):
            t = tf.raw_ops.Cast(x=t, DstT=dtype_of(value))
        have = t.shape.num_elements()
        t = tf.raw_ops.Reshape(tensor=t, shape=[-1])
        if have < n:
            t = tf.raw_ops.Tile(input=t, multiples=[-(-n // have)])
        t = tf.raw_ops.Slice(input=t, begin=[0], size=[n])
        t = tf.raw_ops.Reshape(tensor=t, shape=list(value.shape))
        small = tf.constant(0.03125, t.dtype)
        t = tf.raw_ops.Mul(x=tf.raw_ops.Tanh(x=t), y=small)
        return tf.raw_ops.AddV2(x=tf.constant(value), y=t)

    def input(self, value, fixed):
        t = dtype_of(value)
        if not fixed and t in (tf.float32, tf.float64) and \
                value.size and self.rng.random() < 0.6:
            return self.blend(value)
        return tf.constant(value, t, value.shape)

    def add(self, run):
        """Adds the op, or says why not."""
        ends = [self.input(x, (run.op_def.name, i) in CONSTANT)
                for i, x in enumerate(run.inputs)]
        g = graph_pb2.GraphDef()
        g.node.append(run.node)
        name = g.node[0].name = f"n{len(self.drawn)}_{run.op_def.name}"
        removed = run.op_def.deprecation.version
        g.versions.producer = removed - 1 if removed else \
            tf.version.GRAPH_DEF_VERSION
        try:
            op, = tf.import_graph_def(
                g, {f"in{i}:0": e for i, e in enumerate(ends)}, [name], name="")
            self.sess.run(list(op.outputs) or op, self.feeds)
        except (ValueError, tf.errors.OpError) as e:
            return reason(e)
        self.drawn.append(run.op_def.name)
        smooth = run.case.grad and self.has_gradient(op)
        for t in op.outputs:
            self.take(t, smooth)
        return None

    def has_gradient(self, op):
        """Through this op alone; TensorFlow has none, or refuses the case."""
        ys = [t for t in op.outputs if t.dtype in FLOATS]
        xs = [t for t in op.inputs if t.dtype in FLOATS]
        if not ys or not xs:
            return False
        try:
            tf_ops.get_gradient_function(op)
            found = [g for g in v1.gradients(ys, xs) if g is not None]
            self.sess.run(found, self.feeds)
        except (LookupError, TypeError, ValueError, AttributeError,
                tf.errors.OpError):
            return False
        return True

    def take(self, t, smooth):
        if t.dtype == tf.string or t.dtype.is_quantized:
            return
        if t.dtype in FLOATS or t.dtype.is_complex:
            self.coarse |= t.dtype not in (tf.float64, tf.complex128)
        if t.dtype == tf.bfloat16:  # NumPy has none
            t = tf.raw_ops.Cast(x=t, DstT=tf.float16)
        self.checks.append(t)
        if t.dtype not in FLOATS or not t.shape.num_elements():
            return
        if t.dtype == tf.float16:
            return
        if not smooth:
            t = tf.stop_gradient(t)
        elif t.dtype in (tf.float32, tf.float64):
            self.sums.append(t)
        if t.dtype in (tf.float32, tf.float64):
            self.pool.append(t)

    def size(self):
        return len(self.drawn)


def total(grown):
    """A scalar that every float result has a part in."""
    parts = []
    for i, t in enumerate(grown.sums):
        flat = tf.raw_ops.Reshape(tensor=t, shape=[-1])
        w = golden.weights(flat.shape, i, t.dtype)
        s = tf.raw_ops.Sum(input=tf.raw_ops.Mul(x=flat, y=tf.constant(w)),
                           axis=[0])
        parts.append(tf.raw_ops.Cast(x=s, DstT=tf.float64))
    return tf.raw_ops.AddN(inputs=parts) if parts else None


def grow(recipes, seed, folder, stats):
    """One graph: <seed>.pb, <seed>.npz for Tide; returns what to expect."""
    rng = random.Random(seed)
    most = rng.randint(10, 60)  # constants and what blends them count too
    with tf.Graph().as_default() as graph, session() as sess:
        g = Grown(rng, sess)
        while len(graph.get_operations()) < most:
            run = recipes.draw(rng)
            if run is None:
                continue
            why = g.add(run)
            if why:
                stats["refused"][run.op_def.name] = why
            else:
                stats["drawn"][run.op_def.name] += 1
        loss = total(g)
        xs = list(g.feeds)
        grads = [None] * len(xs)
        if loss is not None:
            grads = v1.gradients(loss, xs)
        fetched = g.checks + ([loss] if loss is not None else [])
        have = [x for x, d in zip(xs, grads) if d is not None]
        found = [tf.convert_to_tensor(d) for d in grads if d is not None]
        if not fetched:
            return None
        values = sess.run(fetched + found, g.feeds)
        names = [t.name for t in fetched]
        def_ = v1.graph_util.extract_sub_graph(
            graph.as_graph_def(), [t.op.name for t in [*fetched, *xs]])
        path = folder / f"{seed}"
        path.with_suffix(".pb").write_bytes(def_.SerializeToString())
        np.savez(path.with_suffix(".npz"),
                 **{x.op.name: v for x, v in g.feeds.items()})
        with open(path.with_suffix(".txt"), "w", encoding="utf-8") as f:
            for n in names:
                f.write(f"fetch {n}\n")
            for x in xs:
                f.write(f"feed {x.op.name}\n")
            if loss is not None:
                f.write(f"loss {loss.name}\n")
            for x in have:
                f.write(f"gradient {x.op.name}\n")
    names += [f"gradient of {x.op.name}" for x in have]
    return list(zip(names, values, strict=True)), g.coarse


def agree(want, got, coarse):
    """None, or how they differ."""
    want = np.asarray(want)
    if got is None:
        return "missing"
    if got.dtype == bool and want.dtype != bool and not want.any():
        return None  # no gradient where TensorFlow has one of zeros
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{got.dtype} {got.shape}, not {want.dtype} {want.shape}"
    if want.dtype.name not in NEAR:
        return None if np.array_equal(want, got) else "other values"
    finite = np.abs(want[np.isfinite(want)])
    scale = max(float(finite.max(initial=0)), 1e-2)
    near = NEAR["float32" if coarse and want.dtype != np.float16
                else want.dtype.name]
    with np.errstate(all="ignore"):
        if np.allclose(got / scale, want / scale, near, near, equal_nan=True):
            return None
        off = np.nanmax(np.abs(got.astype(complex) - want.astype(complex)))
    shown = f": {got.ravel()}, not {want.ravel()}" if want.size < 9 else ""
    return f"off by {off:.3g}, the largest is {scale:.3g}{shown}"


def compare(seed, expected, coarse, folder, stats):
    """Prints the first difference in the order of the graph."""
    path = folder / f"{seed}.out.npz"
    if not path.exists():  # differential.lua has said why
        return False
    with np.load(path) as got:
        for i, (name, want) in enumerate(expected):
            key = f"r{i}"
            how = agree(want, got[key] if key in got.files else None, coarse)
            if not how:
                continue
            op = name.split("_", 1)[-1].split(":")[0]
            if op in ALLOWED:
                stats["allowed"][op] += 1
                return True
            print(f"seed {seed}: {name}: {how}")
            return False
    return True


def batch(recipes, seeds, tide, stats):
    wrong = 0
    with tempfile.TemporaryDirectory() as out:
        folder, expected = pathlib.Path(out), {}
        for seed in seeds:
            found = grow(recipes, seed, folder, stats)
            if found:
                expected[seed] = found
        r = subprocess.run(
            [tide, str(HERE / "differential.lua"), out,
             *[str(s) for s in expected]],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)
        for line in r.stdout.splitlines():
            refused = next((op for op in ALLOWED if f"({op}, " in line), None)
            if refused:
                stats["allowed"][refused] += 1
                del expected[int(line.split()[1].rstrip(":"))]
            else:
                print(line)
        if r.returncode < 0:
            print(f"Tide ended by signal {-r.returncode}")
        for seed, e in expected.items():
            wrong += not compare(seed, *e, folder, stats)
    return len(expected), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", default="build")
    args = parser.parse_args()
    recipes = Recipes(args.build)
    stats = {"drawn": collections.Counter(), "refused": {},
             "allowed": collections.Counter()}
    graphs = wrong = 0
    tide = str(pathlib.Path(args.build, "tide"))
    for first in range(args.seed, args.seed + args.graphs, BATCH):
        last = min(first + BATCH, args.seed + args.graphs)
        n, bad = batch(recipes, range(first, last), tide, stats)
        graphs, wrong = graphs + n, wrong + bad
        sys.stdout.flush()
    never = [n for n in recipes.names if not stats["drawn"][n]]
    least = min((stats["drawn"][n], n) for n in recipes.names)
    print(f"{len(recipes.names)} ops, {sum(stats['drawn'].values())} draws, "
          f"the least {least[1]} {least[0]} times")
    for n in never:
        print(f"never drawn: {n}: {stats['refused'].get(n, 'no case for it')}")
    for n, k in stats["allowed"].items():
        print(f"allowed: {n} {k} times: {ALLOWED[n]}")
    print(f"{graphs - wrong} passed, {wrong} failed, 0 skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
