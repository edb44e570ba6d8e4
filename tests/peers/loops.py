#!/usr/bin/env python3
"""Values and gradients of loops and branches, computed by real TensorFlow.

    python tests/peers/loops.py [--check | --graphs]

writes tests/golden/loops.lua, which tests/lua/loops.lua compares with: the
functions of tests/lua/shared/loop_rows.lua, by the same names, said once more
with TensorFlow's cond, while_loop, TensorArray, map_fn, foldl, foldr and scan.
Second derivatives are those of its loops made of functions: through a cond in a
loop made of nodes it has none.
With --graphs TensorFlow runs the graphs that Tide built, gradients and all
(tests/peers/loops.lua), and must get the same. Needs TensorFlow; the file is in
the tree because tests must not.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf_all

tf = tf_all.compat.v1
tf.disable_eager_execution()
tf.disable_control_flow_v2()
tf.disable_tensor_equality()

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden/loops.lua"

X = np.array([[1.0, 2.0], [3.0, -0.5], [-1.0, 0.25]])
W = np.array([[0.5, 0.25], [-0.125, 0.75]])
V = np.array([[1.0, -0.5]])

ROWS = {}


def row(*args):
    def keep(f):
        ROWS[f.__name__.removesuffix("_")] = (f, args)
        return f
    return keep


def times(n, body, *vs, shapes=None):
    """The body, repeated n times: body(i, v...)."""
    def step(i, *vs):
        out = body(i, *vs)
        return (i + 1, *(out if isinstance(out, tuple) else (out,)))
    out = tf.while_loop(lambda i, *_: i < n, step, (tf.constant(0), *vs),
                        shape_invariants=shapes)
    return out[1] if len(vs) == 1 else out[1:]


def even(i):
    return tf.equal(i % 2, 0)


@row(W, V)
def cond(w, v):
    return tf.cond(tf.reduce_sum(v) < 1, lambda: v @ w, lambda: v)


@row(W, V)
def cond_one_side(w, v):
    return tf.cond(tf.reduce_sum(v) < 1, lambda: tf.ones_like(v),
                   lambda: v @ w)


@row(W, V)
def cond_in_cond(w, v):
    def yes():
        p, q = tf.cond(tf.reduce_sum(w) < 1, lambda: (v * 2, tf.identity(w)),
                       lambda: (v @ w, w * w))
        return p @ q
    return tf.cond(tf.reduce_sum(v) < 1, yes, lambda: v)


@row(W, V)
def while_(w, v):
    return times(4, lambda _, h: tf.tanh(h @ w), v)


@row(W, V)
def while_zero_times(w, v):
    return times(0, lambda _, h: h @ w, v)


@row(W, V)
def several_variables(w, v):
    return times(3, lambda _, a, b, c: (b * 2, tf.tanh(a @ w), c + a * b),
                 v, v * v, v)


@row(V)
def counter_in_the_value(v):
    return times(3, lambda i, a: a * (tf.cast(i, a.dtype) + 0.5), v)


@row(W, V)
def cond_in_while(w, v):
    return times(5, lambda i, h: tf.cond(
        even(i), lambda: tf.tanh(h @ w), lambda: h * h), v)


@row(W, V)
def cond_in_while_by_value(w, v):
    return times(5, lambda _, h: tf.cond(
        tf.reduce_sum(h) < 0.3, lambda: h @ w + 1,
        lambda: tf.sin(h) * tf.reduce_sum(w)), v)


@row(W, V)
def while_in_cond(w, v):
    return tf.cond(tf.reduce_sum(v) < 1,
                   lambda: times(3, lambda _, h: tf.tanh(h @ w), v),
                   lambda: v)


@row(W, V)
def while_in_a_branch_not_taken(w, v):
    return tf.cond(tf.reduce_sum(v) > 1,
                   lambda: times(3, lambda _, h: tf.tanh(h @ w), v),
                   lambda: v * tf.reduce_sum(w))


@row(W, V)
def while_in_while(w, v):
    return times(3, lambda i, h: h * times(
        i, lambda _, u: tf.tanh(u @ w + h), h), v)


@row(W, V)
def while_in_cond_in_while(w, v):
    def body(i, h):
        def yes():
            return times(2, lambda j, u: tf.cond(
                even(i + j), lambda: tf.sin(u * h), lambda: u @ w), h)
        return tf.cond(even(i), yes, lambda: h * tf.reduce_sum(w))
    return times(4, body, v)


@row(W, V)
def cond_in_cond_in_while(w, v):
    def body(i, h):
        def yes():
            return tf.cond(tf.reduce_sum(h) < 0.25, lambda: times(
                i, lambda _, u: tf.tanh(u @ w + h), h * h),
                lambda: tf.sin(h) * tf.reduce_sum(w))

        def no():
            return tf.cond(i < 2, lambda: h @ w, lambda: tf.sin(h * h) - h)
        return tf.cond(even(i), yes, no)
    return times(5, body, v)


@row(W, V)
def three_deep(w, v):
    return times(2, lambda _, a: times(2, lambda _, b: a * times(
        2, lambda _, c: tf.sin(c @ w + a * b), b), a), v)


@row(V)
def shapes_that_grow(v):
    return times(3, lambda _, a: tf.concat([a * a, a[0:1]], 0), v,
                 shapes=(tf.TensorShape([]), tf.TensorShape([None, 2])))


@row(W, V)
def broadcast_inside(w, v):
    return times(3, lambda _, a: tf.sin(a * tf.reduce_sum(w, 0)), v)


@row(W, V)
def gradient_in_the_body(w, v):
    def body(_, a):
        y = tf.reduce_sum(tf.tanh(a @ w))
        return a - tf.gradients(y, a)[0] * 0.5
    return times(3, body, v)


# ---- arrays ------------------------------------------------------------------

def array(x, n, **o):
    return tf.TensorArray(x.dtype, n, **o)


def product(a, w):
    return tf.squeeze(tf.expand_dims(a, 0) @ w, 0)


@row(X)
def read_and_write(x):
    ta = array(x, 2, clear_after_read=False)
    ta = ta.write(0, x * x).write(1, tf.sin(x))
    return ta.read(0) * ta.read(1) + ta.read(0)


@row(X)
def gather_and_scatter(x):
    ta = array(x, 3, clear_after_read=False).unstack(x * x)
    return ta.gather([2, 0]) * ta.gather([0, 1]), ta.stack()


@row(X)
def unused_elements(x):
    return array(x, 3).unstack(x * x).read(1)


@row(X)
def split_and_concat(x):
    ta = array(x, 2, infer_shape=False, clear_after_read=False)
    ta = ta.split(x * x, [1, 2])
    return ta.concat() * x, ta.read(1)


@row(X, W)
def map_fn(x, w):
    return tf.map_fn(lambda v: tf.tanh(product(v, w)), x)


@row(X, W)
def map_fn_in_map_fn(x, w):
    return tf.map_fn(lambda v: tf.map_fn(
        lambda u: tf.sin(u * v) * tf.reduce_sum(w), v), x)


@row(X)
def map_fn_with_cond(x):
    return tf.map_fn(lambda v: tf.cond(
        tf.reduce_sum(v) < 2, lambda: v * v, lambda: tf.sin(v)), x)


@row(X, W)
def foldl(x, w):
    return tf.foldl(lambda a, v: tf.tanh(product(a, w) + v), x)


@row(X, W)
def foldr(x, w):
    return tf.foldr(lambda a, v: tf.tanh(product(a, w) * v), x, w[0])


@row(X, W)
def scan(x, w):
    return tf.scan(lambda a, v: tf.tanh(product(a, w) + v), x)


@row(X, W)
def scan_reverse(x, w):
    def step(a, v):
        h, c = a
        return tf.tanh(product(h, w) + v), c * v
    return tf.scan(step, x, (w[0], w[1]), reverse=True)


@row(X, W)
def one_element_many_times(x, w):
    ta = array(x, 3, clear_after_read=False).unstack(tf.sin(x))

    def body(i, a):
        inner = times(3, lambda _, b: tf.sin(
            b * ta.read(1) + ta.read(0) * ta.read(1)), a)
        return tf.cond(even(i), lambda: inner * ta.read(1),
                       lambda: inner - ta.read(0))
    return times(7, body, w[0])


@row(X, W)
def scan_in_while(x, w):
    return times(2, lambda _, y: tf.scan(
        lambda a, v: tf.tanh(product(a, w) + v), y), x)


# ---- gradients that are rows -------------------------------------------------
# (rows_zero_times is missing: TensorFlow fails.)

HALF = np.array([0.5, 0.5])


def turn(x, i):
    return tf.gather(x, i % 3)


@row(X)
def rows_in_while(x):
    return times(4, lambda i, a: tf.sin(a + turn(x, i)), tf.constant(HALF))


@row(X)
def rows_in_cond(x):
    return tf.cond(tf.reduce_sum(x) < 0, lambda: tf.gather(x, [0]),
                   lambda: tf.expand_dims(
                       tf.reduce_sum(tf.gather(x, [2, 1]), 0), 0))


@row(X)
def rows_in_cond_in_while(x):
    return times(4, lambda i, a: tf.cond(
        even(i), lambda: tf.sin(a + turn(x, i)), lambda: a * a),
        tf.constant(HALF))


@row(X)
def rows_and_all(x):
    return times(4, lambda i, a: tf.cond(
        even(i), lambda: tf.sin(a + turn(x, i)),
        lambda: a * tf.reduce_sum(x)), tf.constant(HALF))


@row(X)
def rows_in_while_in_while(x):
    return times(2, lambda i, a: times(
        3, lambda j, b: tf.sin(b * turn(x, i + j)), a), tf.constant(HALF))


@row(X)
def rows_of_a_variable(x):
    return times(3, lambda _, a: tf.gather(tf.concat(
        [tf.gather(a, [0, 1, 1]), a[0:1]], 0), [0, 1, 3]) * 0.5, x)


# ---- the file ----------------------------------------------------------------

def gradients(ys, xs):
    return [tf.zeros_like(x) if d is None else tf.convert_to_tensor(d)
            for x, d in zip(xs, tf.gradients(ys, xs))]


def outcome(f, args):
    with tf.Graph().as_default():
        xs = [tf.placeholder(tf.float64, a.shape) for a in args]
        ys = f(*xs)
        ys = list(ys) if isinstance(ys, (tuple, list)) else [ys]
        with tf.Session() as s:
            return s.run((ys, gradients(ys, xs)), dict(zip(xs, args)))


def seconds(f, args):
    """The gradients of the sum of all gradients."""
    tf.enable_control_flow_v2()
    try:
        return outcome(lambda *xs: gradients(f(*xs), xs), args)[1]
    finally:
        tf.disable_control_flow_v2()


def lua(x):
    if isinstance(x, (list, tuple, np.ndarray)) and np.ndim(x) != 0:
        return "{" + ", ".join(lua(v) for v in x) + "}"
    return repr(float(x))


def wrapped(name, values):
    """One tensor a line, cut where it is too long."""
    out = [f"    {name} = {{"]
    for v in values:
        line = "      "
        for word in (lua(v) + ",").split(" "):
            if len(line) + len(word) > 78:
                out.append(line.rstrip())
                line = "      "
            line += word + " "
        out.append(line.rstrip())
    return out + ["    },"]


def text():
    lines = ["-- loops.lua - made by tests/peers/loops.py with TensorFlow "
             + tf_all.__version__ + ".", "-- SPDX-License-Identifier: Apache-2.0",
             "", "return {"]
    for name, (f, args) in ROWS.items():
        ys, ds = outcome(f, args)
        lines += [f'  ["{name}"] = {{', *wrapped("values", ys),
                  *wrapped("gradients", ds),
                  *wrapped("seconds", seconds(f, args)), "  },"]
    return "\n".join(lines + ["}", ""])


def check_graph(folder, line):
    """Runs what Tide built; raises where it differs from ours."""
    name, *edges = line.split()
    f, args = ROWS.get(name, (None, None))
    if not f:
        return
    xs, ys, ds = (e.split(",") for e in edges)
    graph_def = tf.GraphDef.FromString((folder / f"{name}.pb").read_bytes())
    with tf.Graph().as_default():
        tf.import_graph_def(graph_def, name="")
        with tf.Session() as s:
            got = s.run(ys + ds, dict(zip(xs, args)))
    want_ys, want_ds = outcome(f, args)
    for g, w in zip(got, want_ys + want_ds, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12, err_msg=name)


def check_graphs():
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["build/tide", "tests/peers/loops.lua", name], check=True)
        folder = pathlib.Path(name)
        lines = (folder / "graphs.txt").read_text().splitlines()
        for line in lines:
            check_graph(folder, line)
        print(f"{len(lines)} graphs agree")


if "--graphs" in sys.argv:
    check_graphs()
elif "--check" in sys.argv:
    sys.exit(0 if GOLDEN.read_text() == text() else "loops.lua differs")
else:
    GOLDEN.write_text(text())
