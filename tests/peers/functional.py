#!/usr/bin/env python3
"""While, If, Case and lists of tensors, computed by real TensorFlow.

    python tests/peers/functional.py [NAME ...]

writes tests/golden/functional/NAME.pb, which tests/lua/functional.lua runs: a
GraphDef as TensorFlow 2 makes it, with functions for branches and bodies, and
with gradients that TensorFlow took. Beside the graph itself it holds constants:
feed_0 for Placeholder arg_0, want_0 for what got_0 must give, and where it must
fail the code and words. Needs TensorFlow; the files are in the tree because
tests must not.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
raw = tf.raw_ops
v1.enable_control_flow_v2()
v1.enable_resource_variables()

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden/functional"
ROWS = {}


def row(*args, fails=None):
    """A graph of Placeholders for args; fails: the code and a word."""
    def keep(f):
        ROWS[f.__name__.rstrip("_")] = (f, args, fails)
        return f
    return keep


def i32(x):
    return tf.constant(x, tf.int32)


X = np.array([[1.0, 2.0], [3.0, -0.5], [-1.0, 0.25]])
W = np.array([[0.5, 0.25], [-0.125, 0.75]])


def times(n, body, *vs, **o):
    """The body, repeated n times: body(i, v...)."""
    def step(i, *vs):
        out = body(i, *vs)
        return (i + 1, *(out if isinstance(out, tuple) else (out,)))
    out = tf.while_loop(lambda i, *_: i < n, step, (tf.constant(0), *vs), **o)
    return out[1] if len(vs) == 1 else out[1:]


# ---- loops -------------------------------------------------------------------

@row(X)
def while_plain(x):
    return times(5, lambda i, y: y * 0.5 + x, x)


@row(X)
def while_zero(x):
    return times(0, lambda i, y: y * 0.5 + x, x)


@row(np.int32(7))
def while_fed(n):
    return times(n, lambda i, y: y * 2, tf.constant(1))


@row(np.int32(3), X)
def while_nested(n, x):
    def outer(i, y):
        return times(i + n, lambda j, z: z + tf.cast(j, z.dtype) * x, y) * 0.5
    return times(3, outer, x)


@row(X)
def while_grows(x):
    def body(i, y):
        return tf.concat([y, x[:1] * tf.cast(i, x.dtype)], 0)
    any_rows = tf.TensorShape([None, 2])
    y = times(4, body, x, shape_invariants=(tf.TensorShape([]), any_rows))
    return y, tf.matmul(y, tf.constant(W))


@row(X)
def while_rank(x):
    y = times(3, lambda i, y: tf.expand_dims(y, 0), x,
              shape_invariants=(tf.TensorShape([]), tf.TensorShape(None)))
    return y, tf.shape(y)


@row(X)
def while_limit(x):
    return tf.while_loop(lambda y: tf.reduce_sum(y) < 1e6, lambda y: (y * 2,),
                         (x,), maximum_iterations=4, parallel_iterations=1)


@row(X)
def while_swaps(x):
    return times(3, lambda i, a, b: (b, a + b), x, x * 2.0)


@row(X)
def while_functions(x):
    @tf.function
    def inner(a):
        return a * 0.5 + 1.0

    @tf.function
    def outer(a, n):
        return times(n, lambda i, y: inner(y) + a, inner(a))
    return outer(x, 3) + outer(x * 2.0, 2)


@row(X)
def while_raw(x):
    """Conditions that are no bools; all variables handed on but one."""
    @tf.function(input_signature=[tf.TensorSpec([], tf.float32),
                                  tf.TensorSpec([3, 2], tf.float64)])
    def more(n, x):
        return n

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32),
                                  tf.TensorSpec([3, 2], tf.float64)])
    def less(n, x):
        return n - 1.0, x * 2.0
    return raw.StatelessWhile(input=[tf.constant(3.0), x],
                              cond=more.get_concrete_function(),
                              body=less.get_concrete_function())


@row(np.array(["a", "bc"]), np.int32(4))
def while_strings(s, n):
    return times(n, lambda i, t: tf.strings.join([t, s]), s)


# ---- branches ----------------------------------------------------------------

@row(np.array(True), X)
def if_true(p, x):
    return tf.cond(p, lambda: x + 1.0, lambda: x * 2.0)


@row(np.array(False), X)
def if_false(p, x):
    return tf.cond(p, lambda: (x + 1.0, tf.constant(1)),
                   lambda: (x * 2.0, tf.constant(2)))


@row(np.array(False), X)
def if_ranks(p, x):
    y = tf.cond(p, lambda: x, lambda: tf.reduce_sum(x))
    return y, tf.shape(y)


@row(np.array(True), np.array(False), X)
def if_nested(p, q, x):
    return tf.cond(p, lambda: tf.cond(q, lambda: x, lambda: -x),
                   lambda: tf.cond(q, lambda: x * 2.0, lambda: x * 3.0))


def both(x):
    """Functions for branches."""
    spec = [tf.TensorSpec(x.shape, x.dtype)]
    yes = tf.function(lambda a: a + 1.0, input_signature=spec)
    no = tf.function(lambda a: a - 1.0, input_signature=spec)
    return yes.get_concrete_function(), no.get_concrete_function()


@row(np.float32(0.5), np.float32(0), np.array("x"), np.array(""),
     np.zeros((0, 2), np.int32), np.zeros(2, np.int32), X)
def if_other(a, b, c, d, e, f, x):
    """Conditions that are no bools."""
    yes, no = both(x)
    return [raw.StatelessIf(cond=p, input=[x], Tout=[tf.float64],
                            then_branch=yes, else_branch=no)[0]
            for p in (a, b, c, d, e, f)]


@row(np.int32(-1), np.int32(0), np.int32(1), np.int32(2), np.int32(9), X)
def case_all(a, b, c, d, e, x):
    fs = [lambda: x, lambda: x * 2.0, lambda: tf.reduce_sum(x) + x]
    return [tf.switch_case(i, fs) for i in (a, b, c, d, e)]


@row(np.int32(2), X)
def case_loops(i, x):
    return tf.switch_case(i, [lambda: x, lambda: times(2, lambda i, y: y + x, x),
                              lambda: times(3, lambda i, y: y * x, x)])


@row(X)
def if_loops(x):
    def body(i, y):
        return tf.cond(tf.equal(i % 2, 0), lambda: y + x,
                       lambda: times(i, lambda j, z: z * 0.5, y))
    return times(5, body, x)


# ---- side effects ------------------------------------------------------------

def variable(value):
    v = v1.get_variable("v", initializer=tf.constant(value))
    return v, v.initializer


@row(np.int32(4))
def state_loop(n):
    """Each iteration reads what the one before wrote."""
    v, init = variable(1.0)
    with tf.control_dependencies([init]):
        def body(i):
            with tf.control_dependencies([v.assign(v.read_value() * 2.0)]):
                return (i + 1,)
        done = tf.while_loop(lambda i: i < n, body, (tf.constant(0),))
    with tf.control_dependencies(done):
        return v.read_value()


@row(np.array(True), np.array(False))
def state_if(p, q):
    v, init = variable(1.0)

    def add(x):
        return lambda: tf.group(v.assign_add(x))
    with tf.control_dependencies([init]):
        a = tf.cond(p, add(2.0), add(4.0))
    with tf.control_dependencies([a]):
        b = tf.cond(q, add(8.0), add(16.0))
    with tf.control_dependencies([b]):
        return v.read_value()


@row(np.int32(3))
def state_order(n):
    """Branches in a loop in a function that all write one variable."""
    v, init = variable(1.0)

    @tf.function
    def f(n):
        for i in tf.range(n):
            if tf.equal(i, 1):
                v.assign(v * 10.0)
            else:
                v.assign_add(1.0)
        return v * 1.0
    with tf.control_dependencies([init]):
        return f(n)


@row(np.int32(3))
def state_only(n):
    """A loop whose only variable is a handle."""
    v, init = variable(0.0)
    handle = tf.TensorSpec([], tf.resource)

    @tf.function(input_signature=[handle])
    def more(h):
        return raw.ReadVariableOp(resource=h, dtype=tf.float32) < 3.0

    @tf.function(input_signature=[handle])
    def add(h):
        raw.AssignAddVariableOp(resource=h, value=tf.constant(1.0))
        return h
    with tf.control_dependencies([init]):
        out = raw.While(input=[v.handle], cond=more.get_concrete_function(),
                        body=add.get_concrete_function())
    with tf.control_dependencies(out):
        return v.read_value() + 0.0 * tf.cast(n, tf.float32)


@row(X)
def state_product(x):
    """Each iteration multiplies with what it wrote."""
    v, init = variable(1.0)

    def body(i, y):
        return y * tf.cast(v.assign_add(1.0, read_value=True), y.dtype) + x
    with tf.control_dependencies([init]):
        return times(3, body, x * 1.0)


# ---- lists -------------------------------------------------------------------

@row(X)
def list_array(x):
    a = tf.TensorArray(tf.float64, 3, element_shape=[2])
    a = times(3, lambda i, a: a.write(i, x[i] * 2.0), a)
    return a.stack(), a.read(1), a.gather([2, 0]), a.size(), a.concat()


@row(X)
def list_grows(x):
    a = tf.TensorArray(tf.float64, 0, dynamic_size=True, infer_shape=False)
    a = times(4, lambda i, a: a.write(i, x[:i]), a)
    return a.concat(), a.size()


@row(X)
def list_unstack(x):
    a = tf.TensorArray(tf.float64, 3).unstack(x)
    b = tf.TensorArray(tf.float64, 2).split(x, [1, 2])
    return a.read(2), a.stack(), b.concat()


def push_all(x, shape=-1):
    h = raw.EmptyTensorList(element_shape=i32(shape), max_num_elements=-1,
                            element_dtype=tf.float64)
    for i in range(3):
        h = raw.TensorListPushBack(input_handle=h, tensor=x[i])
    return h


def stack(h, shape=-1, dtype=tf.float64):
    return raw.TensorListStack(input_handle=h, element_shape=i32(shape),
                               element_dtype=dtype)


def get(h, i, shape=-1):
    return raw.TensorListGetItem(input_handle=h, index=i,
                                 element_shape=i32(shape),
                                 element_dtype=tf.float64)


def reserve(n, shape=-1, dtype=tf.float64):
    return raw.TensorListReserve(element_shape=i32(shape), num_elements=n,
                                 element_dtype=dtype)


def pop(h, shape=-1):
    return raw.TensorListPopBack(input_handle=h, element_shape=i32(shape),
                                 element_dtype=tf.float64)


@row(X)
def list_push(x):
    h = push_all(x)
    two, last = pop(h)
    one, middle = pop(two)
    return (stack(h), stack(two), stack(one), last, middle,
            raw.TensorListLength(input_handle=two),
            stack(raw.TensorListPushBack(input_handle=one, tensor=x[2])))


@row(X)
def list_shapes(x):
    return [raw.TensorListElementShape(input_handle=push_all(x, s),
                                       shape_type=t)
            for s in (-1, [-1], [2]) for t in (tf.int32, tf.int64)]


@row(X)
def list_unset(x):
    """Zeros where nothing was set, in the shape that somebody knows."""
    h = reserve(3)
    one = raw.TensorListSetItem(input_handle=h, index=1, item=x[1])
    far = raw.TensorListSetItem(input_handle=h, index=4, item=x[1],
                                resize_if_index_out_of_bounds=True)
    return (get(one, 0), get(h, 2, [2]), stack(one), stack(reserve(2, [2])),
            stack(reserve(0, [2])), stack(far), pop(h, [3])[1],
            stack(reserve(2, [2], tf.string), -1, tf.string),
            raw.TensorListGather(input_handle=one, indices=[0, 1],
                                 element_shape=-1, element_dtype=tf.float64))


@row(X)
def list_resize(x):
    h = push_all(x, [2])
    return [stack(raw.TensorListResize(input_handle=h, size=n))
            for n in (0, 1, 3, 5)]


@row(X)
def list_scatter(x):
    h = raw.TensorListScatter(tensor=x, indices=[3, 0, 1], element_shape=[2])
    g = raw.TensorListScatterV2(tensor=x, indices=[1, 1, 0],
                                element_shape=[-1], num_elements=4)
    into = raw.TensorListScatterIntoExistingList(
        input_handle=push_all(x), tensor=x[:2], indices=[2, 0])
    return (stack(h), stack(g), stack(into),
            raw.TensorListGather(input_handle=h, indices=[3, 3, 2],
                                 element_shape=[2], element_dtype=tf.float64))


@row(X)
def list_concat(x):
    h = raw.TensorListSplit(tensor=x, element_shape=[-1, 2],
                            lengths=tf.constant([2, 0, 1], tf.int64))
    a = raw.TensorListConcat(input_handle=h, element_dtype=tf.float64)
    b = raw.TensorListConcatV2(
        input_handle=reserve(2, [-1, 2]), element_shape=-1,
        leading_dims=tf.constant([2, 1], tf.int64), element_dtype=tf.float64)
    c = raw.TensorListConcatV2(
        input_handle=reserve(2), element_shape=[3],
        leading_dims=tf.constant([], tf.int64), element_dtype=tf.float64)
    both = raw.TensorListConcatLists(input_a=push_all(x), input_b=push_all(-x),
                                     element_dtype=tf.float64)
    return (*a, *b, *c, get(h, 1), stack(both))


@row(X)
def list_batch(x):
    h = tf.stack([push_all(x), push_all(x * 2.0)])
    h = raw.TensorListPushBackBatch(input_handles=h, tensor=x[:2])
    a, b = tf.unstack(h)
    return stack(a), stack(b)


@row(X)
def list_sums(x):
    h, g = push_all(x), push_all(x * 3.0)
    one = raw.TensorListSetItem(input_handle=reserve(3, [2]), index=1,
                                item=x[0])
    return (stack(tf.add_n([h, g, h])), stack(tf.zeros_like(h)),
            stack(tf.add_n([h, one])))


@row(X)
def list_lists(x):
    """Lists in a list, and their sums."""
    def outer(a, b):
        h = raw.EmptyTensorList(element_shape=i32([]), max_num_elements=-1,
                                element_dtype=tf.variant)
        for g in (a, b):
            h = raw.TensorListPushBack(input_handle=h, tensor=g)
        return h
    h = tf.add_n([outer(push_all(x), push_all(-x)),
                  outer(push_all(x), push_all(x))])
    h, last = raw.TensorListPopBack(input_handle=h, element_shape=i32([]),
                                    element_dtype=tf.variant)
    first = raw.TensorListGetItem(input_handle=h, index=0,
                                  element_shape=i32([]),
                                  element_dtype=tf.variant)
    return stack(first), stack(last), stack(tf.zeros_like(last))


@row(X)
def list_optional(x):
    a = raw.OptionalFromValue(components=[x * 2.0, x * 3.0])
    y, n = raw.OptionalGetValue(
        optional=a, output_types=[tf.float64] * 2,
        output_shapes=[[3, 2], None])
    b = tf.add_n([raw.OptionalFromValue(components=[x])] * 2)
    z, = raw.OptionalGetValue(optional=b, output_types=[tf.float64],
                              output_shapes=[None])
    return (y, n, z, raw.OptionalHasValue(optional=a),
            raw.OptionalHasValue(optional=raw.OptionalNone()))


# ---- gradients that TensorFlow took ------------------------------------------

def grad(f):
    def g(*args):
        out = f(*args)
        out = out if isinstance(out, (list, tuple)) else [out]
        ys = [tf.reduce_sum(y * y) for y in out if y.dtype.is_floating]
        xs = [a for a in args if a.dtype.is_floating]
        return [y for y in out if y.dtype.is_floating] + v1.gradients(ys, xs)
    return g


for name in ("while_plain", "while_nested", "while_grows", "while_limit",
             "while_swaps", "while_functions", "if_true", "if_ranks",
             "if_nested", "if_loops", "case_loops", "list_array", "list_grows",
             "list_unstack", "list_push", "list_unset", "list_resize",
             "list_scatter", "list_concat", "list_sums", "list_lists",
             "list_optional"):
    _f, _args, _ = ROWS[name]
    ROWS["grad_" + name] = (grad(_f), _args, None)


@row(X)
def second_while(x):
    y = tf.reduce_sum(times(3, lambda i, y: y * x, x))
    d, = v1.gradients(y, x)
    return y, d, v1.gradients(tf.reduce_sum(d * d), x)[0]


@row(X)
def second_if(x):
    def body(i, y):
        return tf.cond(tf.equal(i % 2, 0), lambda: y * x, lambda: y * y)
    y = tf.reduce_sum(times(3, body, x))
    d, = v1.gradients(y, x)
    return y, d, v1.gradients(tf.reduce_sum(d), x)[0]


@row(X)
def grad_scan(x):
    y = tf.scan(lambda a, b: a * b + a, x)
    z = tf.map_fn(lambda a: tf.reduce_sum(a * a) + a, x)
    return y, z, v1.gradients([y, z], x)[0]


@row(X, W)
def grad_rnn(x, w):
    def step(i, h, a):
        h = tf.tanh(tf.matmul(h, w) + x[i])
        return h, a.write(i, h)
    a = tf.TensorArray(tf.float64, 3, element_shape=[1, 2])
    h, a = times(3, step, tf.zeros([1, 2], tf.float64), a)
    y = tf.reduce_sum(a.stack() ** 2) + tf.reduce_sum(h)
    return [y] + v1.gradients(y, [x, w])


# ---- refused -----------------------------------------------------------------

def refused(name, word, code="invalid_argument"):
    def keep(f):
        ROWS["bad_" + name] = (f, (X,), (code, word))
        return f
    return keep


def hidden(t):
    """The same, of which TensorFlow knows nothing before it runs."""
    return raw.Merge(inputs=[t])[0]


refused("pop", "empty")(lambda x: pop(reserve(0, [2]), [2])[1])
refused("index", "index 3")(lambda x: get(push_all(x), i32(3)))
refused("negative", "index -1")(lambda x: get(push_all(x), i32(-1)))
refused("unset", "zeros")(lambda x: get(reserve(2), 1))
refused("unset_pop", "zeros")(lambda x: pop(reserve(2))[1])
refused("length", "num_elements")(lambda x: raw.TensorListStack(
    input_handle=push_all(x), element_shape=-1, element_dtype=tf.float64,
    num_elements=2))
refused("stack", "shape")(lambda x: stack(raw.TensorListPushBack(
    input_handle=push_all(x), tensor=x)))
refused("stack_none", "element_shape")(lambda x: stack(reserve(0)))
refused("merge", "element_shape")(
    lambda x: raw.TensorListStack(
        input_handle=hidden(push_all(x, [2])), element_shape=i32([3]),
        element_dtype=tf.float64))
refused("push", "shape")(lambda x: stack(push_all(x, [3])))
refused("full", "full")(lambda x: stack(raw.TensorListPushBack(
    input_handle=raw.EmptyTensorList(
        element_shape=i32(-1), max_num_elements=0, element_dtype=tf.float64),
    tensor=x)))
refused("dtype", "float64")(
    lambda x: stack(hidden(push_all(x)), -1, tf.int32))
refused("reserve", "num_elements")(lambda x: stack(reserve(i32(-1), [2])))
refused("resize", "size")(lambda x: stack(raw.TensorListResize(
    input_handle=push_all(x), size=i32(-2)), [2]))
refused("gather", "index 5")(lambda x: raw.TensorListGather(
    input_handle=push_all(x), indices=i32([5]), element_shape=-1,
    element_dtype=tf.float64))
refused("scatter", "indices")(lambda x: stack(raw.TensorListScatter(
    tensor=x, indices=i32([0, -1, 1]), element_shape=[2])))
refused("scatter_rows", "indices")(lambda x: stack(raw.TensorListScatter(
    tensor=x, indices=i32([0, 1]), element_shape=[2])))
refused("scatter_size", "num_elements")(lambda x: stack(
    raw.TensorListScatterV2(tensor=x, indices=i32([0, 1, 2]),
                            element_shape=[2], num_elements=2)))
refused("split", "lengths")(lambda x: stack(raw.TensorListSplit(
    tensor=x, element_shape=-1, lengths=tf.constant([1, 1], tf.int64))))
refused("split_more", "lengths")(lambda x: stack(raw.TensorListSplit(
    tensor=x, element_shape=-1, lengths=tf.constant([1, 3], tf.int64))))
refused("concat", "leading_dims")(lambda x: raw.TensorListConcatV2(
    input_handle=reserve(2, [-1, 2]), element_shape=-1,
    leading_dims=tf.constant([1], tf.int64), element_dtype=tf.float64)[0])
refused("sum", "elements")(lambda x: stack(tf.add_n(
    [push_all(x), reserve(2, [2])])))
refused("handle", "list")(lambda x: stack(raw.OptionalFromValue(
    components=[x])))
refused("optional", "value")(lambda x: raw.OptionalGetValue(
    optional=raw.OptionalNone(), output_types=[tf.float64],
    output_shapes=[None])[0])


# ---- writing -----------------------------------------------------------------

CODES = {tf.errors.InvalidArgumentError: "invalid_argument"}


def config():
    """Runs the graph as it is."""
    c = v1.ConfigProto()
    c.graph_options.optimizer_options.opt_level = -1
    c.graph_options.rewrite_options.disable_meta_optimizer = True
    return c


def constant(name, value):
    tf.constant(value, name=name)


def strip(def_):
    """What only debuggers want; it is most of the file."""
    for nodes in [def_.node] + [f.node_def for f in def_.library.function]:
        for n in nodes:
            n.ClearField("experimental_debug_info")
            for key in ("_output_shapes", "_lower_using_switch_merge",
                        "_num_original_outputs", "_read_only_resource_inputs",
                        "_stateful_parallelism"):
                n.attr.pop(key, None)
    for f in def_.library.function:
        for key in list(f.attr):
            f.attr.pop(key)
        for a in f.arg_attr:
            f.arg_attr[a].Clear()
        f.arg_attr.clear()


def short(def_):
    """Functions and what is in them get short names."""
    names = {f.signature.name: f"f{i}"
             for i, f in enumerate(def_.library.function)}

    def rename_funcs(n):
        for a in n.attr.values():
            for f in [a.func] * a.HasField("func") + list(a.list.func):
                f.name = names[f.name]
        n.op = names.get(n.op, n.op)

    def rename(f):
        sig = f.signature
        sig.name = names[sig.name]
        new = {a.name: f"a{i}" for i, a in enumerate(sig.input_arg)}
        new |= {n.name: f"n{i}" for i, n in enumerate(f.node_def)}
        out = {a.name: f"r{i}" for i, a in enumerate(sig.output_arg)}

        def ref(x):
            control = x.startswith("^")
            name, *rest = x[control:].split(":")
            return "^" * control + ":".join([new[name], *rest])
        for n in f.node_def:
            rename_funcs(n)
            n.name = new[n.name]
            n.input[:] = [ref(x) for x in n.input]
        for names_of, args in (new, sig.input_arg), (out, sig.output_arg):
            for a in args:
                a.name = names_of[a.name]
        rets, controls = dict(f.ret), dict(f.control_ret)
        f.ret.clear()
        f.control_ret.clear()
        for k, v in rets.items():
            f.ret[out[k]] = ref(v)
        for i, v in enumerate(controls.values()):
            f.control_ret[f"c{i}"] = ref(v)
        sig.control_output[:] = [f"c{i}" for i in range(len(controls))]
    for n in def_.node:
        rename_funcs(n)
    for f in def_.library.function:
        rename(f)


def run(g, got, feeds, fails):
    with v1.Session(graph=g, config=config()) as s:
        try:
            return s.run(got, feeds)
        except tf.errors.OpError as e:
            if not fails or CODES[type(e)] != fails[0]:
                raise
            return None


def write(name):
    f, args, fails = ROWS[name]
    g = tf.Graph()
    with g.as_default():
        feeds = {}
        for i, a in enumerate(args):
            a = np.asarray(a)
            p = v1.placeholder(tf.as_dtype(a.dtype), a.shape, name=f"arg_{i}")
            feeds[p] = a
        out = f(*feeds)
        out = out if isinstance(out, (list, tuple)) else [out]
        got = [tf.identity(y, name=f"got_{i}") for i, y in enumerate(out)]
        answer = run(g, got, feeds, fails)
        for i, a in enumerate(args):
            constant(f"feed_{i}", a)
        if fails:
            assert answer is None, name
            constant("code", fails[0])
            constant("word", fails[1])
        for i, y in enumerate(answer or []):
            constant(f"want_{i}", y)
        def_ = g.as_graph_def()
    strip(def_)
    short(def_)
    data = def_.SerializeToString(deterministic=True)
    (GOLDEN / f"{name}.pb").write_bytes(data)
    print(name, len(data))


if __name__ == "__main__":
    for each in sys.argv[1:] or ROWS:
        write(each)
