#!/usr/bin/env python3
"""Cells, layers, losses, metrics and the like, computed by real TensorFlow 1.

    PYTHONPATH=... TF_USE_LEGACY_KERAS=1 python tests/peers/learning.py [--check]

writes tests/golden/learning/NAME.lua, a file a row, which tests/lua/{cells,rnn,
layers,losses,metrics}.lua compare with, by the same names. The numbers that go in are a
formula that both sides know: element i of input or variable k is
sin(1 + 0.7 i + 1.3 k) / 2, where variables count from 100 (of a variance its
square and 1). Compared are what comes out, and the gradients of
sum(y * cos(i / 2)) over all floats of it.
Needs TensorFlow and tf-keras (which has tf.layers and tf.nn.rnn_cell since
Keras 3 came); the files are in the tree because tests must not.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import sys
import warnings

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.simplefilter("ignore")

import numpy as np
import tensorflow as tf_all

tf = tf_all.compat.v1
tf.disable_eager_execution()
tf.disable_control_flow_v2()
tf.logging.set_verbosity(tf.logging.ERROR)

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden/learning"

ROWS = {}
INPUTS = []


def row(f):
    ROWS[f.__name__.rstrip("_")] = f
    return f


def numbers(k, shape, dtype=np.float64):
    i = np.arange(int(np.prod(shape)))
    return (np.sin(1 + 0.7 * i + 1.3 * k) / 2).reshape(shape).astype(dtype)


def given(*shape, dtype=np.float64):
    x = tf.constant(numbers(len(INPUTS), shape, dtype))
    INPUTS.append(x)
    return x


# ---- cells -------------------------------------------------------------------

CELL = tf.nn.rnn_cell


def lstm_state(n, h=None):
    return CELL.LSTMStateTuple(given(2, n), given(2, h or n))


@row
def basic_rnn_cell():
    return CELL.BasicRNNCell(3)(given(2, 4), given(2, 3))[0]


@row
def lstm_cell():
    out, s = CELL.LSTMCell(3)(given(2, 4), lstm_state(3))
    return out, s.c, s.h


@row
def basic_lstm_cell():
    out, s = CELL.BasicLSTMCell(3, forget_bias=0.5)(given(2, 4), lstm_state(3))
    return out, s.c, s.h


@row
def lstm_cell_with_everything():
    cell = CELL.LSTMCell(3, use_peepholes=True, cell_clip=0.2, num_proj=2,
                         proj_clip=0.1, forget_bias=0.0)
    out, s = cell(given(2, 4), lstm_state(3, 2))
    return out, s.c, s.h


@row
def gru_cell():
    return CELL.GRUCell(3)(given(2, 4), given(2, 3))[0]


@row
def multi_cell():
    cell = CELL.MultiRNNCell([CELL.LSTMCell(3), CELL.GRUCell(2)])
    out, (s, h) = cell(given(2, 4), (lstm_state(3), given(2, 2)))
    return out, s.c, s.h, h


@row
def residual_wrapper():
    out, h = CELL.ResidualWrapper(CELL.GRUCell(3))(given(2, 3), given(2, 3))
    return out, h


# ---- over time ---------------------------------------------------------------

LENGTHS = [5, 0, 3]


@row
def dynamic_rnn():
    y, s = tf.nn.dynamic_rnn(CELL.LSTMCell(2), given(3, 5, 2),
                             dtype=tf.float64)
    return y, s.c, s.h


@row
def dynamic_rnn_with_lengths():
    y, s = tf.nn.dynamic_rnn(CELL.LSTMCell(2), given(3, 5, 2),
                             sequence_length=LENGTHS, dtype=tf.float64)
    return y, s.c, s.h


@row
def dynamic_rnn_shorter_than_time():
    return tf.nn.dynamic_rnn(CELL.GRUCell(2), given(5, 3, 2), [3, 2, 0],
                             initial_state=given(3, 2), time_major=True)


@row
def static_rnn_with_lengths():
    ys, s = tf.nn.static_rnn(CELL.GRUCell(2), tf.unstack(given(5, 3, 2)),
                             sequence_length=LENGTHS, dtype=tf.float64)
    return (*ys, s)


@row
def bidirectional_dynamic_rnn():
    ys, states = tf.nn.bidirectional_dynamic_rnn(
        CELL.GRUCell(2), CELL.BasicRNNCell(1), given(3, 5, 2), LENGTHS,
        dtype=tf.float64)
    return (*ys, *states)


# ---- layers ------------------------------------------------------------------

LAYERS = tf.layers


@row
def dense():
    y = LAYERS.dense(given(2, 3), 4, activation=tf.nn.relu)
    return LAYERS.dense(y, 2, use_bias=False)


@row
def dense_of_rank_3():
    return LAYERS.dense(given(2, 3, 2), 2, activation=tf.tanh, name="fc")


@row
def dense_shared():
    layer = LAYERS.Dense(3)
    with tf.variable_scope("net"):
        return layer(layer(given(2, 3)))


@row
def dense_reused():
    x = given(2, 3)
    with tf.variable_scope("net"):
        y = LAYERS.dense(LAYERS.dense(x, 3), 3)
    with tf.variable_scope("net", reuse=True):
        return y, LAYERS.dense(LAYERS.dense(x, 3), 3)


@row
def conv2d():
    y = LAYERS.conv2d(given(2, 6, 5, 2), 3, [3, 2], strides=(2, 1),
                      padding="same", activation=tf.nn.relu)
    return LAYERS.conv2d(y, 2, 2, dilation_rate=2, use_bias=False)


@row
def conv2d_transpose():
    y = LAYERS.conv2d_transpose(given(2, 2, 3, 2), 3, [3, 2], strides=2)
    return LAYERS.conv2d_transpose(y, 1, 3, strides=(2, 1), padding="same")


@row
def separable_conv2d():
    y = LAYERS.separable_conv2d(given(2, 6, 5, 2), 3, [3, 2], strides=2,
                                padding="same", depth_multiplier=2,
                                activation=tf.tanh)
    return y, LAYERS.separable_conv2d(y, 2, 2, use_bias=False)


@row
def max_pooling2d():
    y = LAYERS.max_pooling2d(given(2, 7, 6, 2), [3, 2], (2, 1))
    return y, LAYERS.max_pooling2d(y, 2, 2, padding="same")


@row
def average_pooling2d():
    y = LAYERS.average_pooling2d(given(2, 7, 6, 2), [3, 2], (2, 1))
    return y, LAYERS.average_pooling2d(y, 2, 2, padding="same")


@row
def batch_normalization():
    return LAYERS.batch_normalization(given(4, 3), training=True)


@row
def batch_normalization_in_use():
    return LAYERS.batch_normalization(given(4, 3), momentum=0.5)


@row
def batch_normalization_of_an_axis():
    return LAYERS.batch_normalization(given(2, 3, 2), axis=1, training=True,
                                      center=False, epsilon=0.1)


@row
def batch_normalization_of_images():
    x = given(2, 3, 2, 3, dtype=np.float32)
    return LAYERS.batch_normalization(x, training=True, momentum=0.9)


@row
def batch_normalization_of_images_in_use():
    return LAYERS.batch_normalization(given(2, 3, 2, 3, dtype=np.float32),
                                      center=False, scale=False)


@row
def layer_normalization():
    return tf.keras.layers.LayerNormalization(dtype="float64")(given(2, 2, 3))


# ---- losses ------------------------------------------------------------------

LOSSES = tf.losses


def probability(x):
    return tf.sigmoid(x)


def losses_of(f, labels, predictions):
    """By each reduction, and with weights of each kind."""
    rows = tf.constant([[0.0], [2.0], [0.5]], tf.float64)
    all_ = tf.reshape(rows, [3, 1]) * tf.constant([[1.0, 0.0, 3.0, 1.0]],
                                                  tf.float64)
    out = [f(labels, predictions)]
    for w in (rows, all_):
        out += [f(labels, predictions, weights=w, reduction=r)
                for r in ("none", "weighted_sum", "weighted_mean",
                          "weighted_sum_over_batch_size",
                          "weighted_sum_by_nonzero_weights")]
    return out


@row
def absolute_difference():
    return losses_of(LOSSES.absolute_difference, given(3, 4), given(3, 4))


@row
def mean_squared_error():
    return losses_of(LOSSES.mean_squared_error, given(3, 4), given(3, 4))


@row
def hinge_loss():
    return LOSSES.hinge_loss([[0.0, 1.0], [1.0, 0.0]],
                             tf.cast(given(2, 2), tf.float32) * 4)


@row
def huber_loss():
    x, y = given(3, 4), given(3, 4)
    return LOSSES.huber_loss(x, y, delta=0.25), LOSSES.huber_loss(x * 4, y)


@row
def log_loss():
    return LOSSES.log_loss(probability(given(3, 4)), probability(given(3, 4)),
                           weights=2.0)


@row
def cosine_distance():
    return LOSSES.cosine_distance(given(3, 4), given(3, 4), axis=1)


@row
def mean_pairwise_squared_error():
    x, y = given(3, 4), given(3, 4)
    return (LOSSES.mean_pairwise_squared_error(x, y),
            LOSSES.mean_pairwise_squared_error(x, y,
                                               [[1.0], [0.0], [2.0]]))


@row
def sigmoid_cross_entropy():
    return LOSSES.sigmoid_cross_entropy(tf.stop_gradient(given(3, 4)),
                                        given(3, 4), label_smoothing=0.1)


@row
def softmax_cross_entropy():
    return LOSSES.softmax_cross_entropy(probability(given(3, 4)), given(3, 4),
                                        weights=[1.0, 0.0, 2.0],
                                        label_smoothing=0.1)


@row
def sparse_softmax_cross_entropy():
    return LOSSES.sparse_softmax_cross_entropy([3, 0, 1], given(3, 4))


@row
def regularization():
    with tf.variable_scope("a", regularizer=lambda w: 0.5 * tf.nn.l2_loss(w)):
        tf.get_variable("w", [2, 3])
        tf.get_variable("v", [3], regularizer=lambda w: 0.25 * tf.reduce_sum(
            tf.abs(w)))
    LOSSES.mean_squared_error(given(2, 2, dtype=np.float32),
                              given(2, 2, dtype=np.float32))
    return (LOSSES.get_regularization_loss(), LOSSES.get_total_loss(),
            LOSSES.get_total_loss(add_regularization_losses=False))


# ---- embeddings --------------------------------------------------------------

IDS = [[3, 0, 9], [9, 4, 6]]


def parts(sizes, name="part"):
    return [tf.get_variable(f"{name}_{i}", [n, 2], tf.float64)
            for i, n in enumerate(sizes)]


def lookup(table, **o):
    return tf.nn.embedding_lookup(table, tf.constant(IDS), **o)


@row
def embedding_lookup():
    return lookup(parts([10])), lookup(parts([10], "other"), max_norm=0.4)


@row
def embedding_lookup_mod():
    return lookup(parts([4, 3, 3]))


@row
def embedding_lookup_div():
    return lookup(parts([4, 3, 3]), partition_strategy="div", max_norm=0.4)


def sparse(values, dtype):
    return tf.SparseTensor([[0, 0], [0, 2], [1, 0], [2, 0], [2, 1], [2, 2]],
                           tf.constant(values, dtype), [3, 3])


def lookup_sparse(table, **o):
    ids = sparse([3, 3, 1, 0, 4, 2], tf.int64)
    weights = sparse([0.5, 2.0, 1.0, 3.0, 0.25, 1.5], tf.float64)
    return [tf.nn.embedding_lookup_sparse(table, ids, w, combiner=c, **o)
            for w in (None, weights) for c in ("sum", "mean", "sqrtn")]


@row
def embedding_lookup_sparse():
    return lookup_sparse(parts([5]))


@row
def embedding_lookup_sparse_of_parts():
    return lookup_sparse(parts([3, 2]), partition_strategy="div")


def drawn(dtype, num_true):
    """Classes, and how often they are expected: as a sampler would give."""
    expected = np.arange(1, 1 + 3 * num_true).reshape(3, num_true) / 8
    return (tf.constant([2, 5, 0, 7], tf.int64), tf.constant(expected, dtype),
            tf.constant([0.5, 0.25, 0.75, 0.125], dtype))


@row
def sampled_softmax_loss():
    w = parts([3, 3, 2], "w")
    b = [tf.get_variable(f"b_{i}", [n], tf.float64)
         for i, n in enumerate([3, 3, 2])]
    x = given(3, 2)
    return (tf.nn.sampled_softmax_loss(
                w, b, tf.constant([[5], [1], [0]]), x, 4, 8, partition_strategy="div",
                sampled_values=drawn(tf.float64, 1)),
            tf.nn.sampled_softmax_loss(
                w, b, tf.constant([[5, 1], [1, 6], [0, 2]]), x, 4, 8, num_true=2,
                remove_accidental_hits=False,
                sampled_values=drawn(tf.float64, 2)))


@row
def nce_loss():
    w, = parts([8], "w")
    b = tf.get_variable("b", [8], tf.float64)
    return tf.nn.nce_loss(w, b, tf.constant([[5, 1], [1, 6], [0, 2]]),
                          given(3, 2), 4, 8, num_true=2,
                          sampled_values=drawn(tf.float64, 2))


# ---- metrics: what they are after each of three batches ----------------------

METRICS = tf.metrics
STREAMS = {}


def stream(f):
    STREAMS[f.__name__.rstrip("_")] = f
    return f


def batches(batch, *shape):
    return tf.gather(given(3, *shape), batch)


def classes(batch, n, *shape):
    """Class numbers that vary."""
    x = batches(batch, *shape)
    return tf.cast(tf.floor((x + 0.5) * (n - 0.01)), tf.int64)


def flags(batch, *shape):
    return batches(batch, *shape) > 0.1


@stream
def metric_mean(b):
    return METRICS.mean(batches(b, 4, 2), weights=batches(b, 4, 1) + 0.5)


@stream
def metric_percentage_below(b):
    return METRICS.percentage_below(tf.cast(batches(b, 5), tf.float32), 0.2)


@stream
def metric_accuracy(b):
    return METRICS.accuracy(classes(b, 3, 6), classes(b, 3, 6),
                            weights=batches(b, 6) + 0.5)


@stream
def metric_mean_absolute_error(b):
    return METRICS.mean_absolute_error(batches(b, 4), batches(b, 4))


@stream
def metric_mean_squared_error(b):
    return METRICS.mean_squared_error(batches(b, 4), batches(b, 4))


@stream
def metric_root_mean_squared_error(b):
    return METRICS.root_mean_squared_error(batches(b, 4), batches(b, 4))


@stream
def metric_mean_relative_error(b):
    return METRICS.mean_relative_error(batches(b, 4), batches(b, 4),
                                       batches(b, 4))


@stream
def metric_mean_cosine_distance(b):
    return METRICS.mean_cosine_distance(batches(b, 4, 2), batches(b, 4, 2),
                                        dim=1)


@stream
def metric_top_k(b):
    hits = tf.nn.in_top_k(tf.cast(batches(b, 6, 5), tf.float32),
                          classes(b, 5, 6), 2)
    return METRICS.mean(tf.cast(hits, tf.float32))


@stream
def metric_precision(b):
    return METRICS.precision(flags(b, 8), flags(b, 8),
                             weights=batches(b, 8) + 0.5)


@stream
def metric_recall(b):
    return METRICS.recall(flags(b, 8), flags(b, 8))


@stream
def metric_false_negatives(b):
    return METRICS.false_negatives(flags(b, 8), flags(b, 8))


@stream
def metric_true_negatives(b):
    return METRICS.true_negatives(flags(b, 8), flags(b, 8))


@stream
def metric_precision_at_thresholds(b):
    return METRICS.precision_at_thresholds(
        flags(b, 8), tf.sigmoid(4 * batches(b, 8)), [0.25, 0.5, 0.75])


@stream
def metric_recall_at_thresholds(b):
    return METRICS.recall_at_thresholds(
        flags(b, 8), tf.sigmoid(4 * batches(b, 8)), [0.25, 0.5, 0.75],
        weights=batches(b, 8) + 0.5)


def auc(b, **o):
    return METRICS.auc(flags(b, 8), tf.sigmoid(4 * batches(b, 8)), **o)


@stream
def metric_auc(b):
    return auc(b)


@stream
def metric_auc_minoring(b):
    return auc(b, num_thresholds=20, summation_method="minoring")


@stream
def metric_auc_of_precision(b):
    return auc(b, num_thresholds=50, curve="PR",
               summation_method="careful_interpolation")


@stream
def metric_auc_of_precision_by_trapezes(b):
    return auc(b, num_thresholds=50, curve="PR")


@stream
def metric_mean_iou(b):
    return METRICS.mean_iou(classes(b, 3, 7), classes(b, 3, 7), 4,
                            weights=batches(b, 7) + 0.5)


@stream
def metric_mean_per_class_accuracy(b):
    return METRICS.mean_per_class_accuracy(classes(b, 3, 7), classes(b, 3, 7),
                                           4)


def outcome_of_stream(f):
    INPUTS.clear()
    with tf.Graph().as_default(), tf.Session() as s:
        batch = tf.placeholder(tf.int32, [])
        value, update = f(batch)
        s.run(tf.local_variables_initializer())
        values = []
        for k in range(3):
            s.run(update, {batch: k})
            values.append(s.run(value))
        return {"values": values}


# ---- the file ----------------------------------------------------------------

def flat(ys):
    return [tf.convert_to_tensor(y) for y in
            (ys if isinstance(ys, (tuple, list)) else [ys])]


def total(ys):
    """sum(y * cos(i / 2)) over all floats."""
    parts = []
    for y in ys:
        if y.dtype.is_floating:
            v = tf.reshape(y, [-1])
            i = tf.cast(tf.range(tf.size(v)), y.dtype)
            parts.append(tf.cast(tf.reduce_sum(v * tf.cos(i / 2)), tf.float64))
    return tf.add_n(parts)


def gradients(y, xs):
    ds = tf.gradients(y, xs)
    return [tf.zeros_like(x) if d is None else tf.convert_to_tensor(d)
            for x, d in zip(xs, ds)]


def outcome(f):
    INPUTS.clear()
    with tf.Graph().as_default():
        ys = flat(f())
        variables = tf.global_variables()
        xs = [x for x in INPUTS if x.dtype.is_floating]
        weights = tf.trainable_variables()
        differentiable = any(y.dtype.is_floating for y in ys)
        ds = gradients(total(ys), xs + weights) if differentiable else []
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.Session() as s:
            s.run(tf.local_variables_initializer())
            for k, v in enumerate(variables):
                start = numbers(100 + k, v.shape.as_list(),
                                v.dtype.as_numpy_dtype)
                if "variance" in v.op.name:
                    start = start * start + 1
                s.run(v.initializer, {v.initializer.inputs[1]: start})
            values, ds = s.run((ys, ds))
            s.run(updates)
            after = s.run([v for v in variables if v not in weights])
        names = [v.op.name for v in variables]
        return {"variables": names, "values": values, "gradients": ds,
                "after": after}


def lua(x):
    if isinstance(x, str):
        return f'"{x}"'
    if isinstance(x, (list, tuple, np.ndarray)) and np.ndim(x) != 0:
        return "{" + ", ".join(lua(v) for v in x) + "}"
    if np.asarray(x).dtype.kind in "biu":
        return str(int(x))
    return f"{float(x):.15g}"


def wrapped(name, values):
    """One item a line, cut where it is too long."""
    out = [f"  {name} = {{"]
    for v in values:
        line = "    "
        for word in (lua(v) + ",").split(" "):
            if len(line) + len(word) > 78:
                out.append(line.rstrip())
                line = "    "
            line += word + " "
        out.append(line.rstrip())
    return out + ["  },"]


def text(name, found):
    lines = [f"-- {name}.lua",
             "-- Made by tests/peers/learning.py with TensorFlow "
             f"{tf_all.__version__}.",
             "-- SPDX-License-Identifier: Apache-2.0", "", "return {"]
    for key, values in found.items():
        if values:
            lines += wrapped(key, values)
    return "\n".join(lines + ["}", ""])


def main():
    outcomes = {name: outcome(f) for name, f in ROWS.items()}
    outcomes |= {name: outcome_of_stream(f) for name, f in STREAMS.items()}
    GOLDEN.mkdir(exist_ok=True)
    for name, found in outcomes.items():
        path, made = GOLDEN / f"{name}.lua", text(name, found)
        if "--check" not in sys.argv:
            path.write_text(made)
        elif path.read_text() != made:
            sys.exit(f"{path} differs")


main()
