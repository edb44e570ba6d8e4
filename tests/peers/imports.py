#!/usr/bin/env python3
"""Golden imports: graphs that real TensorFlow made, with what it computes.

    python tests/peers/imports.py [NAME ...]

writes tests/golden/imports/NAME.pb: a GraphDef as TensorFlow wrote it, in which
each Identity "got_N" has a Const "want_N" beside it, TensorFlow's own result.
They are graphs that no program of Tide's writes: loops whose variables change
shape, functions in functions in loops, called by name, in any order. Those
called "drawn" are drawn at random: values, functions, loops and branches, each
made of the others.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import random
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import function
from tensorflow.python.ops import gen_data_flow_ops as flow
from tensorflow.python.ops import gen_functional_ops
from tensorflow.python.ops import gen_resource_variable_ops as resource

v1 = tf.compat.v1
v1.disable_v2_behavior()
v1.disable_control_flow_v2()
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden/imports"
SCALAR, VECTOR, ANY = tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape(
    None)
ROWS = tf.TensorShape([None, 2])
cases = {}


def case(f):
    cases[f.__name__] = f
    return f


def numbers(*shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return tf.constant(x / 8 - 0.5)


def turn(times, body, xs, shapes):
    """body(*xs), so many times."""
    out = v1.while_loop(lambda i, *_: i < times,
                        lambda i, *xs: [i + 1] + list(body(*xs)),
                        [tf.constant(0)] + list(xs),
                        shape_invariants=[SCALAR] + list(shapes))
    return out[1:]


# ---- loops that change shapes ------------------------------------------------


@case
def grows():
    """Checked behind the loop and in its body."""
    w = numbers(2, 2)
    x, = turn(3, lambda x: [tf.concat([x, tf.matmul(x, w)], 0)], [numbers(1, 2)],
              [ROWS])
    return [tf.matmul(numbers(1, 8), x), tf.matmul(x, w)]


@case
def grows_within():
    def outer(x, n):
        y, = turn(2, lambda y: [tf.concat([y, y[:1]], 0)], [x], [ROWS])
        return [y, n + tf.matmul(tf.transpose(y), y)]
    x, n = turn(3, outer, [numbers(1, 2), numbers(2, 2)], [ROWS, tf.TensorShape([2, 2])])
    return [x, n, tf.matmul(numbers(1, 7), x)]


@case
def several():
    """Variables that take one another's shapes, one of unknown rank."""
    def body(a, b, c):
        return [b, tf.concat([a, b], 0), tf.expand_dims(c, 0)]
    a, b, c = turn(3, body, [numbers(1, 2), numbers(2, 2), numbers(3)],
                   [ROWS, ROWS, ANY])
    return [tf.matmul(a, b, transpose_b=True), c]


@case
def never_turns():
    """A body that could only fail, and is never run."""
    w = v1.placeholder_with_default(np.ones((4, 3), np.float32), [None, 3])
    x, = turn(0, lambda x: [tf.matmul(x, w)],
              [v1.placeholder_with_default(np.ones((2, 3), np.float32), [2, 3])],
              [ANY])
    return [x]


@case
def unmarked():
    """Loops in loops without LoopCond, in a function too."""
    def outer(x, n):
        y, = turn(3, lambda y: [y * 2.0], [x], [ANY])
        return [tf.concat([y, y[:1]], 0), n + tf.reduce_sum(y)]

    @function.Defun(tf.float32)
    def loop(x):
        return turn(2, outer, [x, numbers(1)], [ANY, ANY])[0]
    x, n = turn(2, outer, [numbers(2), numbers(1)], [ANY, ANY])
    return [x, n, loop(x)]


def without_marks(nodes, port):
    """Takes out LoopConds: whoever takes one takes its predicate."""
    marks = {n.name: n.input[0] for n in nodes if n.op == "LoopCond"}
    kept = [n for n in nodes if n.op != "LoopCond"]
    for n in kept:
        n.input[:] = [marks.get(i.removesuffix(port), i) for i in n.input]
    del nodes[:]
    nodes.extend(kept)


@case
def old_shapes():
    """Scalars for vectors of one, which are not seen before they run."""
    def hidden(x):
        return v1.placeholder_with_default(x, None)
    size, value = hidden(tf.constant(3)), hidden(numbers(1))
    return [tf.raw_ops.Fill(dims=size, value=numbers(1)[0]),
            tf.raw_ops.Fill(dims=hidden(tf.constant([2, 2])), value=value)]


@case
def assigned():
    """A variable of no shape takes values of any."""
    v = resource.var_handle_op(tf.float32, ANY, name="v")
    one = resource.assign_variable_op(v, numbers(2))
    with tf.control_dependencies([one]):
        a = resource.read_variable_op(v, tf.float32)
    with tf.control_dependencies([a]):
        two = resource.assign_variable_op(v, numbers(2, 3))
    with tf.control_dependencies([two]):
        return [a, resource.read_variable_op(v, tf.float32)]


@case
def in_meta():
    """The file is a MetaGraphDef."""
    return [tf.matmul(numbers(2, 2), numbers(2, 3))]


@case
def in_model():
    """The file is a SavedModel."""
    return [twice(numbers(3))]


def wrapped(name, gd):
    """The GraphDef as TensorFlow's other messages hold it."""
    if name not in ("in_meta", "in_model"):
        return gd
    with tf.Graph().as_default() as g:
        tf.import_graph_def(gd, name="")
        meta = v1.train.export_meta_graph(graph=g)
    if name == "in_meta":
        return meta
    model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta.meta_info_def.tags.append("serve")
    model.meta_graphs.append(meta)
    return model


# ---- ops that Tide does not have ----------------------------------------------


@case
def saver():
    """A training graph with a saver, summaries, an iterator, a variable by
    reference."""
    w = v1.get_variable("w", initializer=np.ones((3, 2), np.float32),
                        use_resource=True)
    b = v1.get_variable("b", initializer=np.ones(2, np.float32),
                        use_resource=False)
    y = tf.nn.relu(tf.matmul(numbers(2, 3), w))
    loss = tf.reduce_sum(y + b, name="loss")
    v1.summary.scalar("loss", loss)
    v1.summary.merge_all()
    v1.train.Saver()
    v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y))
    rows = v1.data.make_one_shot_iterator(tf.data.Dataset.range(3))
    tf.add(rows.get_next(), 1, name="next")
    tf.group(w.initializer, name="start_up")
    return [y]


# ---- queues ------------------------------------------------------------------


@case
def old_queues():
    """The first version of the ops, whose handles are references."""
    types = [tf.float32, tf.int32]
    q = flow.fifo_queue(types, shapes=[[2], []], capacity=8, shared_name="old")
    p = flow.padding_fifo_queue([tf.float32], shapes=[[None]])
    order = [flow.queue_enqueue_many(q, [numbers(4, 2), tf.range(4)])]
    got = []

    def then(f, *args, **kwargs):
        with tf.control_dependencies(order):
            out = f(*args, **kwargs)
        order[:] = [out if isinstance(out, tf.Operation) else
                    out[0].op if isinstance(out, list) else out.op]
        for x in out if isinstance(out, list) else [out]:
            if not isinstance(x, tf.Operation):
                got.append(tf.reshape(tf.cast(x, tf.float32), [-1]))

    then(flow.queue_enqueue, q, [tf.constant([5., 6.]), tf.constant(9)])
    then(flow.queue_dequeue_many, q, 2, types)
    then(flow.queue_dequeue, q, types)
    then(flow.queue_size, q)
    then(flow.queue_close, q)
    then(flow.queue_is_closed, q)
    then(flow.queue_dequeue_up_to, q, 8, types)
    for row in [1.], [2., 3.], [4., 5., 6.]:
        then(flow.queue_enqueue, p, [tf.constant(row)])
    then(flow.queue_dequeue_many, p, 3, [tf.float32])
    return [tf.concat(got, 0)]


# ---- functions ---------------------------------------------------------------


@function.Defun(tf.float32)
def twice(x):
    return x * 2.0 + 1.0


@function.Defun(tf.float32, tf.float32)
def both(x, y):
    return x - y, tf.split(x * y, 2)[1], x + y


@case
def by_name():
    """Results of calls within a body, the second and third by their names."""
    @function.Defun(tf.float32, tf.float32)
    def outer(x, y):
        a, b, c = both(twice(x), y)
        return twice(c), a + tf.reduce_sum(b), b
    return list(outer(numbers(4), numbers(4)))


@case
def with_argument():
    """A node that is colocated with an argument of its function."""
    @function.Defun(tf.float32, tf.float32)
    def outer(x, y):
        with v1.colocate_with(y.op):
            a = x + y
        with v1.colocate_with(a.op):
            return twice(a * 3.0)
    x = numbers(4)
    return [outer(x, x), turn(2, lambda x: [outer(x, x)], [x], [ANY])[0]]


@case
def after_argument():
    """Nodes that wait for an argument, and for nothing else."""
    @function.Defun(tf.float32, tf.float32)
    def inner(x, y):
        with tf.control_dependencies([x, y]):
            return tf.constant(3.0) + y

    @tf.function
    def outer(x):
        with tf.control_dependencies([x]):
            return tf.constant(2.0)
    x = numbers(2)
    y, = turn(2, lambda x: [inner(x, x * 2.0)], [x], [ANY])
    return [inner(x, x), outer(x), y]


@case
def in_loops():
    """Functions in a loop in a function in a loop."""
    @function.Defun(tf.float32)
    def inner(x):
        a, _, b = both(x, twice(x))
        return tf.tanh(a * b)

    @function.Defun(tf.float32)
    def loop(x):
        y, = turn(3, lambda x: [inner(x) + 0.5], [x], [ANY])
        return twice(y)
    return turn(2, lambda x: [loop(x)], [numbers(4)], [ANY])


@case
def traced():
    """tf.function within tf.function: calls by attribute."""
    @tf.function
    def inner(x, y):
        return x * 2.0, tf.concat([x, y], 0)

    @tf.function
    def outer(x):
        a, b = inner(x, x)
        return inner(b, a)
    return list(outer(numbers(3)))


@case
def as_attribute():
    """A function that is given to another as an attribute."""
    @function.Defun(tf.float32)
    def outer(x):
        return gen_functional_ops.partitioned_call([x], [tf.float32], f=twice)[0]
    x = numbers(3)
    y = gen_functional_ops.partitioned_call([x], [tf.float32], f=outer)[0]
    return [y]


def given_as_attribute(gd):
    """The body calls "$body", and whoever calls it says what that is."""
    for f in gd.library.function:
        for n in f.node_def:
            if n.op == "PartitionedCall":
                inner = n.attr["f"].func.name
                n.attr["f"].placeholder = "body"
                f.signature.attr.add(name="body", type="func")
                outer = f.signature.name
    for n in gd.node:
        if n.op == "PartitionedCall" and n.attr["f"].func.name == outer:
            n.attr["f"].func.attr["body"].func.name = inner


def backwards(gd):
    """Functions and nodes in no order."""
    functions = sorted(gd.library.function, key=lambda f: f.signature.name)
    del gd.library.function[:]
    gd.library.function.extend(reversed(functions))
    nodes = list(gd.node)
    del gd.node[:]
    gd.node.extend(reversed(nodes))


def edit(name, gd):
    if name == "unmarked":
        without_marks(gd.node, "")
        for f in gd.library.function:
            without_marks(f.node_def, ":output:0")
    if name == "as_attribute":
        given_as_attribute(gd)
    if name in ("by_name", "in_loops"):
        backwards(gd)


# ---- drawn -------------------------------------------------------------------

SEEDS = [8, 31, 70, 94, 100, 118, 195, 198]
KINDS = ["value"] * 3 + ["grow"] + ["function"] * 3 + ["loop"] * 2 + ["cond"]


def mix(x, y):
    """Of vectors of any lengths."""
    return tf.tanh(x + tf.reduce_mean(y))


def draw(r, depth, xs):
    """As many vectors as `xs`, of these."""
    xs = list(xs)
    for _ in range(r.randint(1, 3)):
        kind = r.choice(KINDS if depth else KINDS[:4])
        at = r.randrange(len(xs))
        if kind == "value":
            xs[at] = mix(xs[at], r.choice(xs))
        elif kind == "grow":
            xs[at] = tf.concat([xs[at], xs[at][:1]], 0)
        elif kind == "function":
            xs = call(r, depth - 1, xs)
        elif kind == "loop":
            xs = turn(r.randint(1, 3), part(r, depth - 1), xs, [ANY] * len(xs))
        else:
            p = tf.reduce_sum(xs[at]) > 0
            one, other = part(r, depth - 1), part(r, depth - 1)
            xs = list(v1.cond(p, lambda: one(*xs), lambda: other(*xs)))
    return xs


def part(r, depth):
    """A drawn part that is the same however often it is built."""
    seed = r.random()
    return lambda *xs: draw(random.Random(seed), depth, xs)


def call(r, depth, xs):
    body = part(r, depth)

    @function.Defun(*[tf.float32] * len(xs))
    def drawn(*xs):
        return tuple(body(*xs))
    again = r.random() < 0.3
    xs = drawn(*xs)
    return list(drawn(*xs)) if again else list(xs)


def drawn(seed):
    return lambda: draw(random.Random(seed), 3,
                        [numbers(2), numbers(3) * 0.5, numbers(1)])


for seed in SEEDS:
    cases[f"drawn_{seed}"] = drawn(seed)


# ---- steps that wait for one another ------------------------------------------


@case
def coordination():
    """Accumulators (handles by reference, too), a barrier, staging, a mutex."""
    got, order = [], []

    def then(f, *args, **kwargs):
        with tf.control_dependencies(order):
            out = tf.nest.flatten(f(*args, **kwargs))
        order[:] = [x if isinstance(x, tf.Operation) else x.op for x in out[:1]]
        got.extend(tf.reshape(tf.cast(x, tf.float32), [-1]) for x in out
                   if not isinstance(x, tf.Operation) and x.dtype != tf.string)
    shape = tf.TensorShape([None, 2])
    old = flow.conditional_accumulator(tf.float32, shape, shared_name="old")
    new = flow.resource_conditional_accumulator(tf.float64, shape,
                                                reduction_type="SUM")
    for k in range(3):
        x = numbers(3, 2) * (k + 1)
        then(flow.accumulator_apply_gradient, old, tf.constant(k - 1, tf.int64), x)
        then(flow.resource_accumulator_apply_gradient, new,
             tf.constant(k, tf.int64), tf.cast(x, tf.float64))
    then(flow.accumulator_num_accumulated, old)
    then(flow.accumulator_take_gradient, old, 2, tf.float32)
    then(flow.resource_accumulator_take_gradient, new, 1, tf.float64)
    rows = flow.sparse_conditional_accumulator(tf.float32, tf.TensorShape([4, 2]))
    for at in [0, 2], [2, 3]:
        then(flow.sparse_accumulator_apply_gradient, rows,
             tf.constant(0, tf.int64), tf.constant(at, tf.int64), numbers(2, 2),
             tf.constant([4, 2], tf.int64), True)
    then(flow.sparse_accumulator_take_gradient, rows, 2, tf.float32)
    b = flow.barrier([tf.float32, tf.int32], shapes=[[], [2]])
    then(flow.barrier_insert_many, b, ["a", "b", "c"], numbers(3), 0)
    then(flow.barrier_insert_many, b, ["c", "a"], [[1, 2], [3, 4]], 1)
    then(flow.barrier_ready_size, b)
    then(flow.barrier_take_many, b, 2, [tf.float32, tf.int32])
    then(flow.barrier_incomplete_size, b)
    types = [tf.float32, tf.int32]
    for k in range(2):
        then(flow.stage, [numbers(2), tf.constant(k)], shared_name="s")
    then(flow.stage_peek, 1, types, shared_name="s")
    then(flow.unstage, types, shared_name="s")
    for k in 7, 5:
        then(flow.ordered_map_stage, tf.constant(k, tf.int64), [0, 1],
             [numbers(1) * k, tf.constant(k)], types, shared_name="m")
    then(flow.ordered_map_unstage_no_key, [0, 1], types, shared_name="m")
    then(flow.ordered_map_unstage, tf.constant(7, tf.int64), [1], [tf.int32],
         shared_name="m")
    then(flow.ordered_map_size, types, shared_name="m")
    lock = resource.mutex_lock(resource.mutex_v2(shared_name="turn"))
    order.append(lock.op)
    then(resource.consume_mutex_lock, lock)
    return [tf.concat(got, 0)]


# ---- files -------------------------------------------------------------------


def write(name):
    with tf.Graph().as_default() as g:
        out = [tf.identity(y, f"got_{i}") for i, y in enumerate(cases[name]())]
    gd = g.as_graph_def()
    edit(name, gd)
    with tf.Graph().as_default() as g, v1.Session(graph=g) as sess:
        tf.import_graph_def(gd, name="")
        if name == "saver":
            sess.run("start_up")
        want = sess.run([y.name for y in out])
        for i, x in enumerate(want):
            tf.constant(x, name=f"want_{i}")
        if name in ("by_name", "in_loops"):  # their order is what is tested
            gd.node.extend(n for n in g.as_graph_def().node
                           if n.name.startswith("want_"))
        else:
            gd = g.as_graph_def()
    for n in [n for f in gd.library.function for n in f.node_def] + list(gd.node):
        n.attr.pop("_output_shapes", None)
        n.ClearField("experimental_debug_info")
    data = wrapped(name, gd).SerializeToString(deterministic=True)
    (GOLDEN / f"{name}.pb").write_bytes(data)
    print(f"{name}: {len(gd.node)} nodes, {len(gd.library.function)} functions, "
          f"{len(want)} results, {len(data)} bytes")


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name in sys.argv[1:] or cases:
        write(name)
