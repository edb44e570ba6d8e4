"""Random graphs in real TensorFlow, for differential.py.

A graph grows op by op from three placeholders. Every op that has cases is drawn
(tests/peers/cases); a float input of the case is, more often than not, the case's
value plus a small function of something the graph already computed, so that ops
are fed by each other and stay within their domains. An op on a variable gets one
of its own, assigned before it and read after it. What TensorFlow refuses is left
out. Now and then a function, a branch or a loop is drawn (random_regions.py).
What is vast or not finite is compared but not passed on: it would make
everything after it the same. So NaN and infinity come from the cases.

SPDX-License-Identifier: Apache-2.0
"""

import random

import numpy as np

import golden
from golden import FLOATS, Run, Types, dtype_of, reason, session, tf, v1
from cases import OPS
from random_regions import Regions
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import op_def_registry, ops as tf_ops

# (op, input): fed a constant, because TensorFlow's gradient leaves it out, or is
# uninitialised memory where there are no indices.
CONSTANT = {("PadV2", 2), ("SparseSegmentSumWithNumSegments", 0),
            ("SparseSegmentMeanWithNumSegments", 0),
            ("SparseSegmentSqrtNWithNumSegments", 0),
            # What is one value here may be two there, by the last bit.
            ("Unique", 0), ("UniqueV2", 0), ("UniqueWithCounts", 0),
            ("UniqueWithCountsV2", 0), ("ListDiff", 0), ("AsString", 0),
            ("RGBToHSV", 0),
            # Next to a pole or an edge the last bit is much.
            ("Digamma", 0), ("Polygamma", 1), ("CropAndResize", 1),
            ("CropAndResizeGradImage", 1), ("CropAndResizeGradBoxes", 2)}
CONSTANT |= {("StringFormat", i) for i in range(11)}
# Which element is the largest is told by comparing what was computed, too; and
# TensorFlow's second gradients clear an input: the result takes the memory of
# what is still to be read.
CONSTANT |= {(op, i) for i in (0, 1, 2) for op in (
    "MaxPoolGrad", "MaxPoolGradV2", "MaxPoolGradGrad", "MaxPoolGradGradV2",
    "MaxPool3DGrad", "MaxPool3DGradGrad")}

# (op, output): nothing, of another shape with oneDNN than without.
NOT_COMPARED = {("FusedBatchNormV3", 5)}

# So many ops refused in a row: TensorFlow took a node in that it cannot prepare,
# and refuses all that comes after.
BROKEN = 25

# Not drawn: nothing to compare, or not for a graph of values.
LEFT_OUT = {
    "Placeholder", "PlaceholderWithDefault", "Const", "NoOp", "ControlTrigger",
    "Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond",
    "Assert", "Print", "PrintV2", "Timestamp", "DestroyResourceOp",
    # TensorFlow changes what they are given, and again in each run.
    "InplaceUpdate", "InplaceAdd", "InplaceSub",
}


def drawable(name):
    op_def = op_def_registry.get(name)
    if op_def is None or name in LEFT_OUT:
        return False
    takes = [a.type for a in op_def.input_arg]
    gives = [a.type for a in op_def.output_arg]
    resource, variant = tf.resource.as_datatype_enum, tf.variant.as_datatype_enum
    if variant in takes + gives or resource in gives:
        return False
    return not op_def.is_stateful or resource in takes


def array(x):
    """NumPy's arithmetic makes scalars of arrays without axes."""
    return np.asarray(x, object if isinstance(x, bytes) else None)


def moderate(value):
    return bool((np.abs(np.asarray(value, float)) < 1e30).all())


class Recipes:
    """The ops to draw from, with their cases."""

    def __init__(self, build, unsure=(), regions=0.0):
        """unsure: ops whose results may differ, not drawn within regions;
        regions: how often one is drawn in place of an op."""
        self.unsure, self.regions = unsure, regions
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
        if binding is None or any(
                binding[attr].name in missing.split()
                for attr, missing in OPS[name].missing.items()):
            return None
        run = Run(op_def, case, binding)
        if len(run.inputs) > 11 or any(isinstance(x, tuple) and x[1] is None
                                       for x in run.inputs):
            return None
        run.inputs = [x if isinstance(x, tuple) else array(x)
                      for x in run.inputs]
        return run


class Check:
    """A tensor whose value is compared."""

    def __init__(self, label, tensor, op=None, source=None):
        self.label, self.tensor = label, tensor
        self.op = op          # type of the op drawn, or None
        self.source = source  # the op's output that `tensor` tells of


class Grown:
    """A graph under way."""

    def __init__(self, rng, sess):
        self.rng, self.sess = rng, sess
        self.feeds, self.pool, self.checks, self.sums = {}, [], [], []
        self.drawn = []
        self.serial = 0
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
        self.coarse |= dtype_of(value) != tf.float64
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

    def variable(self, dtype, value, handles):
        """The handle of a new variable, once it has its value."""
        name = f"v{len(self.drawn)}_{len(handles)}"
        h = tf.raw_ops.VarHandleOp(dtype=dtype, shape=value.shape,
                                   shared_name=name, name=name)
        first = self.input(value, False)
        put = tf.raw_ops.AssignVariableOp(resource=h, value=first)
        with tf.control_dependencies([put]):
            handles.append((h, dtype))
            return tf.raw_ops.Identity(input=h)

    def place(self, run, handles):
        """The op in the graph, with inputs of its own."""
        kind = run.op_def.name
        self.serial += 1
        # TensorFlow does not look at a NaN among an optimizer's own numbers.
        rule = "Apply" in kind
        ends = [self.variable(*x, handles) if isinstance(x, tuple) else
                self.input(x, (kind, i) in CONSTANT or rule and x.ndim == 0)
                for i, x in enumerate(run.inputs)]
        g = graph_pb2.GraphDef()
        g.node.append(run.node)
        name = g.node[0].name = f"n{self.serial}_{kind}"
        removed = run.op_def.deprecation.version
        g.versions.producer = removed - 1 if removed else \
            tf.version.GRAPH_DEF_VERSION
        op, = tf.import_graph_def(
            g, {f"in{i}:0": e for i, e in enumerate(ends)}, [name], name="")
        return op

    def add(self, run):
        """Adds the op, or says why not."""
        handles, after = [], []
        try:
            op = self.place(run, handles)
            with tf.control_dependencies([op]):
                for h, dtype in handles:
                    after.append(tf.raw_ops.ReadVariableOp(
                        resource=h, dtype=dtype, name=f"{op.name}_after"))
            grads = self.gradients(op) if run.case.grad and not handles else []
            found, grads = self.run([*op.outputs, *after], grads)
        except (ValueError, tf.errors.OpError) as e:
            return reason(e)
        self.drawn.append(op.type)
        smooth = bool(grads) and all(moderate(g) for g in grads)
        for t, value in zip([*op.outputs, *after], found, strict=True):
            self.take(t, value, smooth, op.type)
        return None

    def add_region(self, recipes):
        """The same of a region."""
        rng, made = self.rng, Regions(recipes, self)
        try:
            # Large float32 would come out of the body as noise.
            args = [tf.tanh(tf.cast(t, tf.float64)) for t in
                    rng.sample(self.pool, min(len(self.pool), rng.randint(1, 3)))]
            ys, word = made.region(args, 0, rng.random() < 0.5)
            grads = v1.gradients(ys, [*args, *made.outer()])
            grads = [tf.convert_to_tensor(g) for g in grads if g is not None]
            values, slopes = self.sess.run([ys, grads], self.feeds)
        except (ValueError, TypeError, LookupError, AttributeError,
                tf.errors.OpError) as e:
            return f"{' in '.join(made.words)}: {reason(e)}"
        self.coarse = True  # float32 within cannot be seen from here
        self.drawn += [*made.names, *made.words]
        smooth = made.smooth() and all(moderate(g) for g in slopes)
        for t, value in zip(ys, values, strict=True):
            self.take(t, value, smooth, word)
        for t in grads:
            self.check(t, word)
        return None

    def run(self, results, grads):
        """Values of both, at once: TensorFlow prepares all of a graph that has
        grown. None of the gradients where they are refused."""
        if grads:
            try:
                return self.sess.run([results, grads], self.feeds)
            except tf.errors.OpError:
                pass
        return self.sess.run(results, self.feeds), []

    def gradients(self, op):
        """Through this op alone: TensorFlow may have none, call it not
        differentiable, or refuse the case."""
        ys = [t for t in op.outputs if t.dtype in FLOATS]
        xs = [t for t in op.inputs if t.dtype in FLOATS]
        if not ys or not xs:
            return []
        try:
            tf_ops.get_gradient_function(op)
            return [tf.convert_to_tensor(g) for g in v1.gradients(ys, xs)
                    if g is not None]
        except (LookupError, TypeError, ValueError, AttributeError):
            return []

    def check(self, t, op):
        """Notes that t is to be compared, as something npz can hold."""
        shown = t
        if t.dtype == tf.string:
            shown = tf.raw_ops.StringToHashBucketFast(
                input=t, num_buckets=2**62)
        elif t.dtype == tf.bfloat16:
            shown = tf.raw_ops.Cast(x=t, DstT=tf.float32)
        self.checks.append(Check(t.name, shown, op, t))

    def take(self, t, value, smooth, op):
        if t.dtype.is_quantized or (op, t.value_index) in NOT_COMPARED:
            return
        if t.dtype in FLOATS or t.dtype.is_complex:
            self.coarse |= t.dtype not in (tf.float64, tf.complex128)
        self.check(t, op)
        if t.dtype not in (tf.float32, tf.float64) or \
                not t.shape.num_elements() or not moderate(value):
            return
        # MaxPoolWithArgmax over channels: TensorFlow contradicts itself.
        if not t.shape.is_compatible_with(np.shape(value)):
            return
        if smooth:
            self.sums.append(t)
        else:
            t = tf.stop_gradient(t)
        self.pool.append(t)


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


class Expected:
    """What TensorFlow made of a graph, and what Tide is to be asked."""

    def __init__(self, grown, values):
        self.checks = grown.checks
        self.values = values  # of the checks
        self.coarse = grown.coarse
        self.feeds = [(x.name, v) for x, v in grown.feeds.items()]
        self.loss = None      # name of a tensor
        self.gradients = []   # of the loss, in these placeholders

    def outputs_of(self, node):
        """[(name, value)] of a node's compared outputs; None: of a dtype that
        cannot be fed."""
        found = [(c, v) for c, v in zip(self.checks, self.values)
                 if c.source is not None and c.source.op.name == node]
        whole = found and len(found) == len(found[0][0].source.op.outputs)
        if not whole or any(c.source.dtype == tf.string for c, _ in found):
            return None
        return [(c.label, v) for c, v in found]


def draw(recipes, rng, g):
    """(what was drawn, why it was not added); nothing: try again."""
    if rng.random() < recipes.regions:
        return "region", g.add_region(recipes)
    run = recipes.draw(rng)
    return (run.op_def.name, g.add(run)) if run else (None, None)


def whole(g):
    """The loss, the placeholders that it depends on, and what a session of its
    own makes of all: TensorFlow's gradients change nodes that have run."""
    loss, have = total(g), []
    if loss is not None:
        grads = v1.gradients(loss, list(g.feeds))
        g.checks.append(Check("loss", loss))
        for x, d in zip(g.feeds, grads):
            if d is not None:
                have.append(x)
                g.checks.append(Check(f"gradient of {x.op.name}",
                                      tf.convert_to_tensor(d)))
    with session(8) as sess:
        return loss, have, sess.run([c.tensor for c in g.checks], g.feeds)


def grow(recipes, seed, path, stats):
    """One graph of up to 30 ops as <path>.pb; an Expected, or None."""
    rng = random.Random(seed)
    most = rng.randint(1, 30)
    with tf.Graph().as_default() as graph, session(8) as sess:
        g, in_a_row, first = Grown(rng, sess), 0, None
        while len(g.drawn) < most:
            count = len(g.drawn)
            what, why = draw(recipes, rng, g)
            if why:
                stats.refused[what] = why
                first = first or f"{what}: {why}"
                in_a_row += 1
            elif what:
                stats.drawn.update(g.drawn[count:])
                in_a_row, first = 0, None
            if in_a_row == BROKEN:
                stats.broken.append(f"seed {seed}: {first}")
                return None
        try:
            loss, have, values = whole(g)
        except (ValueError, tf.errors.OpError) as e:
            stats.broken.append(f"seed {seed}: {reason(e)}")
            return None
        asked = [c.tensor for c in g.checks
                 if not c.label.startswith("gradient of ")]
        def_ = v1.graph_util.extract_sub_graph(
            graph.as_graph_def(), [t.op.name for t in [*asked, *g.feeds]])
        path.write_bytes(def_.SerializeToString())
    found = Expected(g, values)
    found.loss = None if loss is None else loss.name
    found.gradients = [x.name for x in have]
    return found
