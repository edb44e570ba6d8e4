"""Functions, branches and loops in random graphs, for random_graphs.py.

A region is a body of a few drawn ops that work on its arguments, or on what is
outside of it, called once (a function), taken or not (cond, If, Case) or
repeated (a loop, While; its variables may change shape). Bodies may hold regions.
TensorFlow 1 made Switch, Merge and frames of them, TensorFlow 2 makes nodes that
name functions; both are drawn, and either within a function. What TensorFlow's
gradient of a region gives is compared as a value, too: it is a graph that
TensorFlow differentiated, with stacks or lists of what the loop went through.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib

import tensorflow as tf

from golden import v1
from tensorflow.python.framework import ops as tf_ops
from tensorflow.python.ops import cond_v2, control_flow_util, while_v2

DEEP = 2  # regions within regions
HALVES = {tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum}


@contextlib.contextmanager
def style(new):
    """Control flow as nodes that name functions, or as Switch and Merge."""
    was = control_flow_util.ENABLE_CONTROL_FLOW_V2
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = new
    try:
        yield
    finally:
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = was


def differentiable(op):
    """Does TensorFlow have a gradient of it? Tide may where it has none."""
    try:
        return tf_ops.get_gradient_function(op) is not None
    except LookupError:
        return False


def summed(t):
    """A float64 scalar that depends on every element, and stays small."""
    t = tf.raw_ops.Cast(x=t, DstT=tf.float64)
    t = tf.where(tf.math.is_finite(t), t, tf.zeros_like(t))
    return tf.reduce_sum(tf.tanh(t)) * 0.125


def rows(t):
    """The sum over the first axis, whose size may change."""
    return tf.ensure_shape(tf.reduce_sum(t, 0), t.shape[1:])


class Regions:
    """Makes regions of what `recipes` draws, in the graph of `grown`."""

    def __init__(self, recipes, grown):
        self.recipes, self.grown, self.rng = recipes, grown, grown.rng
        self.names = []  # types of the ops within
        self.words = []  # kinds of the regions

    def region(self, args, deep, new):
        """float64 results of a region over `args`, and its kind."""
        make = self.rng.choice([self.function, self.branch, self.branch,
                                self.repeat, self.repeat, self.growing])
        word = make.__name__ + (" (nodes)" if new else "")
        self.words.append(word)
        with style(new):
            return tf.nest.flatten(make(args, deep, new)), word

    def outer(self):
        """What bodies may use beside their arguments."""
        return self.grown.pool[:2]

    def smooth(self):
        """Does Tide differentiate what it imports here? Neither it nor
        TensorFlow does so with frames."""
        return all(w.startswith("function") for w in self.words)

    # ---- bodies --------------------------------------------------------------

    def fits(self, run):
        """No variables, nothing that may differ, and no halves: their rounding
        is not to be seen in a gradient."""
        return not (any(isinstance(x, tuple) for x in run.inputs) or
                    any(a.type in HALVES for a in run.node.attr.values()) or
                    run.op_def.is_stateful or
                    run.op_def.name in self.recipes.unsure)

    def op(self, args):
        """The float64 sum of what one drawn op makes of something."""
        g = self.grown
        while True:
            run = self.recipes.draw(self.rng)
            if run and self.fits(run):
                break
        pool = g.pool
        g.pool = args + self.outer()
        try:
            op = g.place(run, [])
        finally:
            g.pool = pool
        self.names.append(op.type)
        floats = [t for t in op.outputs
                  if t.dtype.is_floating and t.shape.num_elements()]
        if not (run.case.grad and differentiable(op)):
            floats = [tf.stop_gradient(t) for t in floats]
        return sum((summed(t) for t in floats), tf.constant(0.0, tf.float64))

    def body(self, args, deep, new):
        """New values for args, of their shapes."""
        total = self.op(args)
        for _ in range(self.rng.randint(0, 1)):
            total += self.op(args)
        if deep < DEEP and self.rng.random() < 0.35:
            inner, _ = self.region(args, deep + 1, new)
            total += sum(summed(t) for t in inner)
        return [0.5 * a + 0.25 * tf.tanh(total + 0.1 * i)
                for i, a in enumerate(args)]

    # ---- regions -------------------------------------------------------------

    def function(self, args, deep, new):
        del new
        made = tf.function(lambda *xs: self.body(list(xs), deep, True),
                           autograph=False)
        return made(*args)

    def branch(self, args, deep, new):
        at = self.rng.choice(args)
        test = summed(at) > self.rng.uniform(-0.3, 0.3)
        ways = [lambda: self.body(args, deep, new),
                lambda: [a + 1.0 for a in args]]
        self.rng.shuffle(ways)
        if not new:
            return v1.cond(test, *ways)
        if self.rng.random() < 0.3:
            ways.append(lambda: [tf.tanh(a) for a in args])
            which = tf.cast(test, tf.int32) * self.rng.randint(-1, 3)
            return tf.switch_case(which, ways)
        return cond_v2.cond_v2(test, *ways)

    def loop(self, new, test, step, start, shapes=None):
        most = self.rng.choice([None, 2, 5])
        parallel = self.rng.choice([1, 2, 10])
        return (while_v2 if new else v1).while_loop(
            test, step, start, shape_invariants=shapes,
            maximum_iterations=most, parallel_iterations=parallel)

    def repeat(self, args, deep, new):
        times = tf.constant(self.rng.randint(0, 4))
        out = self.loop(
            new, lambda i, *xs: i < times,
            lambda i, *xs: [i + 1, *self.body(list(xs), deep, new)],
            [tf.constant(0), *args])
        return out[1:]

    def growing(self, args, deep, new):
        """A variable gets a row in each iteration."""
        first = tf.reshape(args[0], [1, -1])
        width = first.shape[1]

        def step(i, v):
            row, = self.body([rows(v)], deep, new)
            return i + 1, tf.concat([v, tf.reshape(row, [1, width])], 0)

        times = self.rng.randint(0, 4)
        _, v = self.loop(new, lambda i, v: i < times, step,
                         [tf.constant(0), first],
                         [tf.TensorShape([]), tf.TensorShape([None, width])])
        return [rows(v), tf.matmul(v, v, transpose_a=True)]
