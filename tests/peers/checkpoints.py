#!/usr/bin/env python3
"""Checkpoints of real TensorFlow, and Tide's as it reads them.

    python tests/peers/checkpoints.py                 writes tests/golden/checkpoints
    build/tests/engine/io/checkpoint_golden DIR       writes the same by Tide
    python tests/peers/checkpoints.py --read DIR      loads those and compares

`dtypes` has every dtype in three shapes, strings and names; `sliced` tensors in
slices; `sharded` is merged of two parts, one tensor lying in both;
`partitioned` comes from a saver of partitioned variables. Element k of a tensor
is (3 k + 1) % 100, of a bool its lowest bit, of a complex one v - vi. The files
are in the tree because tests must not need any TensorFlow.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import shutil
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "checkpoints"

# As the C test has them.
DTYPES = ["float32", "float64", "int32", "uint8", "int16", "int8", "complex64", "int64",
          "bool", "bfloat16", "uint16", "complex128", "float16", "uint32", "uint64"]
QUANTIZED = {"qint8": "int8", "quint8": "uint8", "qint32": "int32", "qint16": "int16",
             "quint16": "uint16"}
STRINGS = [b"", b"a", b"b\0c", b"\xc3\xa9", b"x" * 300, b""]


def values(dtype, shape):
    v = (3 * np.arange(np.prod(shape, dtype=int)) + 1) % 100
    if dtype == "bool":
        v = v % 2
    if dtype.startswith("complex"):
        v = v - 1j * v
    return tf.constant(v.reshape(shape), getattr(tf, dtype))


def tensor(dtype, shape):
    if dtype in QUANTIZED:
        return tf.bitcast(values(QUANTIZED[dtype], shape), getattr(tf, dtype))
    return values(dtype, shape)


def dtypes():
    """Name, slice, tensor."""
    for dtype in DTYPES + list(QUANTIZED):
        for name, shape in (("matrix", (2, 3)), ("scalar", ()), ("empty", (0, 3))):
            yield f"{name}/{dtype}", "", tensor(dtype, shape)
    yield "strings", "", tf.constant(STRINGS, shape=(2, 3))
    yield "string", "", tf.constant(b"lone")
    yield "no_strings", "", tf.zeros((0,), tf.string)
    yield "long/" + "n" * 300, "", tensor("int32", (1,))
    yield "rank_8", "", tensor("int8", (1, 2, 1, 2, 1, 2, 1, 2))


def rows(name, dtype, whole, *parts):
    """Blocks (start, length) of a tensor, a pair for each dimension."""
    full = tensor(dtype, whole)
    for part in parts:
        at = tuple(slice(s, s + n) for s, n in part)
        text = ":".join("-" if (s, n) == (0, d) else f"{s},{n}" for (s, n), d in zip(part, whole))
        yield name, " ".join(map(str, whole)) + " " + text, full[at]


def sliced():
    yield from rows("w", "int32", (4, 6), ((0, 2), (0, 3)), ((0, 2), (3, 3)), ((2, 2), (0, 6)))
    yield from rows("v", "float32", (1000,), ((0, 70), ), ((70, 930), ))
    yield "whole", "", tensor("float64", (3,))
    yield from rows("u", "int8", (2, 2, 2), ((0, 2), (0, 1), (0, 2)), ((0, 2), (1, 1), (0, 2)))


def parts():
    w = list(rows("w", "int64", (4, 2), ((0, 3), (0, 2)), ((3, 1), (0, 2))))
    return ([("b", "", tensor("float32", (5,))), w[0]],
            [w[1], ("a", "", tf.constant([b"one", b"two"])), ("c", "", tensor("bool", (3,)))])


def save(prefix, what):
    names, slices, tensors = zip(*what)
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=list(names),
                      shape_and_slices=list(slices), tensors=list(tensors))


def partitioned(prefix):
    v1 = tf.compat.v1
    p, q = tensor("float32", (7, 3)).numpy(), tensor("int32", (4,)).numpy()

    def piece(shape, dtype=None, partition_info=None):
        first = partition_info.var_offset[0]
        return tf.constant(p[first:first + shape[0]], dtype)

    with tf.Graph().as_default(), v1.Session() as sess:
        v1.get_variable("p", (7, 3), initializer=piece, use_resource=False,
                        partitioner=v1.fixed_size_partitioner(3))
        v1.get_variable("q", initializer=q, use_resource=False)
        sess.run(v1.global_variables_initializer())
        v1.train.Saver().save(sess, str(prefix), write_meta_graph=False, write_state=False)


def write():
    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.mkdir()
    save(GOLDEN / "dtypes", dtypes())
    save(GOLDEN / "sliced", sliced())
    prefixes = [str(GOLDEN / "temp" / f"part-{i}") for i in range(2)]
    for prefix, part in zip(prefixes, parts()):
        save(prefix, part)
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=prefixes,
                                  destination_prefix=str(GOLDEN / "sharded"),
                                  delete_old_dirs=True)
    partitioned(GOLDEN / "partitioned")


def wanted():
    full = {"w": ("int32", (4, 6)), "v": ("float32", (1000,)), "u": ("int8", (2, 2, 2))}
    yield "dtypes", [(n, t) for n, _, t in dtypes()]
    yield "sliced", [(n, tensor(*d)) for n, d in full.items()] + [("whole", tensor("float64", (3,)))]
    yield "sharded", [("w", tensor("int64", (4, 2)))] + [
        (n, t) for part in parts() for n, s, t in part if not s]


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind in "OS":
        return a.shape == b.shape and a.tolist() == b.tolist()
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def read(folder):
    """By load_checkpoint, and by RestoreV2, which reads what that cannot say."""
    failed = 0
    for name, tensors in wanted():
        prefix = os.path.join(folder, name)
        loaded = tf.train.load_checkpoint(prefix)
        known = loaded.get_variable_to_shape_map()
        bad = sorted(set(known) ^ {n for n, _ in tensors})
        for n, want in tensors:
            got = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=[n], shape_and_slices=[""],
                                       dtypes=[want.dtype])[0]
            if not same(got.numpy(), want.numpy()) or known.get(n) != want.shape.as_list():
                bad.append(n)
            elif want.dtype.name not in QUANTIZED and not same(
                    loaded.get_tensor(n), want.numpy()):
                bad.append(n + " (load_checkpoint)")
        print(f"{name}: {len(tensors)} tensors, {'wrong: ' + ', '.join(bad) if bad else 'all equal'}")
        failed += len(bad)
    return failed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        sys.exit(read(sys.argv[2]) > 0)
    write()
