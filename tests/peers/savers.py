"""savers.py - what real TensorFlow saves the old way, and graphs with its
savers; its reading of files of ours.

Run by hand: python tests/peers/savers.py
writes into tests/golden/savers:

  v1                    Save: a tensor for each dtype, named by it
  v1_shards-0000?-of-00002
                        SaveSlices: "w", int32 {4, 3} of 0 to 11, rows 0 to 2 in
                        the first, row 3 in the second, which has "x" too
  v2                    SaveV2: int64 5 as "a", "w", float32 {4, 2} of 0 to 7 by
                        rows, the last two first, {"moon", "", "tide"} as "z"
  graph.pb              variables "a" float32 {2, 3} and "b" int64 {2}, a
                        partitioned one "w" float32 {5, 2}; "init"; three savers:
                        "plain" and "sharded" of version 2, "old" of version 1

With paths it reads these instead, as it would the golden files, and says
whether they hold the same.

SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "golden/savers"
UUID = "0123456789abcdef0123456789abcdef"  # another each time, without this

VALUES = {
    "bool": tf.constant([True, False]),
    "complex128": tf.constant([1 - 2j, 3 + 4j], tf.complex128),
    "complex64": tf.constant([1 - 2j, 3 + 4j], tf.complex64),
    "float16": tf.constant([1, -0.5, 65504], tf.float16),
    "float32": tf.constant([[1, -0.5, 3e38], [0, np.inf, -np.inf]], tf.float32),
    "float64": tf.constant(-0.1, tf.float64),
    "int16": tf.constant([-32768, 32767], tf.int16),
    "int32": tf.constant([-2**31, 0, 2**31 - 1], tf.int32),
    "int64": tf.constant([-2**63, 2**63 - 1], tf.int64),
    "int8": tf.constant([-128, 127], tf.int8),
    "none": tf.zeros([0, 3]),
    "string": tf.constant([b"moon", b"", b"\0\xff"]),
    "uint16": tf.constant([0, 65535], tf.uint16),
    "uint8": tf.constant([0, 255], tf.uint8),
}
ROWS = tf.reshape(tf.range(12), [4, 3])


def write_v1():
    tf.raw_ops.Save(filename=str(FOLDER / "v1"), tensor_names=list(VALUES),
                    data=list(VALUES.values()))
    shard = str(FOLDER / "v1_shards-0000%d-of-00002")
    tf.raw_ops.SaveSlices(filename=shard % 0, tensor_names=["w"],
                          shapes_and_slices=["4 3 0,3:-"], data=[ROWS[:3]])
    tf.raw_ops.SaveSlices(filename=shard % 1, tensor_names=["w", "x"],
                          shapes_and_slices=["4 3 3,1:-", ""],
                          data=[ROWS[3:], tf.constant(5.0)])


def write_v2():
    w = tf.reshape(tf.range(8.0), [4, 2])
    tf.raw_ops.SaveV2(prefix=str(FOLDER / "v2"), tensor_names=["z", "w", "w", "a"],
                      shape_and_slices=["", "4 2 2,2:-", "4 2 0,2:-", ""],
                      tensors=[tf.constant(["moon", "", "tide"]), w[2:], w[:2],
                               tf.constant(5, tf.int64)])


def write_graph():
    import uuid
    uuid.uuid4 = lambda: uuid.UUID(UUID)
    with tf.Graph().as_default() as g:
        a = v1.get_variable("a", [2, 3], use_resource=True,
                            initializer=v1.ones_initializer())
        b = v1.get_variable("b", [2], tf.int64, use_resource=True,
                            initializer=v1.ones_initializer())
        w = v1.get_variable("w", [5, 2], use_resource=True,
                            initializer=v1.ones_initializer(),
                            partitioner=v1.fixed_size_partitioner(2))
        for x in [a, b] + list(w):
            tf.identity(x.read_value(), "got_" + x.op.name.replace("/", "_"))
        v1.global_variables_initializer()
        v1.train.Saver(name="plain")
        v1.train.Saver(name="sharded", sharded=True)
        v1.train.Saver(name="old", write_version=v1.train.SaverDef.V1)
        (FOLDER / "graph.pb").write_bytes(
            g.as_graph_def().SerializeToString(deterministic=True))


def same(x, y):
    x, y = x.numpy(), y.numpy()
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def check_v1(path):
    return all(
        list(y.numpy().flat) == list(x.numpy().flat) if name == "string" else
        same(x, y) for name, x in VALUES.items()
        for y in [tf.raw_ops.Restore(file_pattern=path, tensor_name=name, dt=x.dtype)])


def check_shards(path):
    return same(ROWS, tf.raw_ops.Restore(file_pattern=path + "-?????-of-?????",
                                         tensor_name="w", dt=tf.int32))


def main():
    if len(sys.argv) == 1:
        FOLDER.mkdir(exist_ok=True)
        write_v1()
        write_v2()
        write_graph()
    elif len(sys.argv) == 3:
        print("the same" if check_v1(sys.argv[1]) and check_shards(sys.argv[2])
              else "others")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
