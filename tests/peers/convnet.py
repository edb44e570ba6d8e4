#!/usr/bin/env python3
"""The net of tutorials/mnist_convnet.lua in real TensorFlow, graph mode.

    python tests/peers/convnet.py DATA [SEED ...]

prints the test accuracy after 5 epochs of each seed: what Tide's is compared
with. DATA holds MNIST's four .gz files.

SPDX-License-Identifier: Apache-2.0
"""

import gzip
import os
import pathlib
import statistics
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
DATA = pathlib.Path(sys.argv[1])


def read(name, head):
    raw = gzip.decompress((DATA / (name + ".gz")).read_bytes())
    return np.frombuffer(raw, np.uint8, offset=head)


def images(name):
    return read(name, 16).reshape(-1, 784).astype(np.float32) / 255


def weights(*shape):
    return tf.get_variable(f"w{len(tf.global_variables())}", shape,
                           initializer=tf.glorot_uniform_initializer())


def zeros(n):
    return tf.get_variable(f"b{len(tf.global_variables())}", [n],
                           initializer=tf.zeros_initializer())


def net(x, training):
    x = tf.reshape(x, [-1, 28, 28, 1])
    for deep, wide in ((1, 32), (32, 64)):
        x = tf.nn.conv2d(x, weights(5, 5, deep, wide), 1, "SAME")
        x = tf.nn.max_pool2d(tf.nn.relu(x + zeros(wide)), 2, 2, "VALID")
    x = tf.reshape(x, [-1, 7 * 7 * 64])
    x = tf.nn.relu(x @ weights(7 * 7 * 64, 1024) + zeros(1024))
    x = tf.cond(training, lambda: tf.nn.dropout(x, rate=0.4), lambda: x)
    return x @ weights(1024, 10) + zeros(10)


def train(seed, data):
    tf.reset_default_graph()
    tf.set_random_seed(seed)
    x = tf.placeholder(tf.float32, [None, 784])
    y = tf.placeholder(tf.int64, [None])
    training = tf.placeholder(tf.bool, [])
    logits = net(x, training)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=y, logits=logits))
    right = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.int32))
    step = tf.train.AdamOptimizer(1e-3).minimize(loss)
    order = np.random.RandomState(seed)
    with tf.Session() as s:
        s.run(tf.global_variables_initializer())
        for _ in range(5):
            rows = order.permutation(60000)
            for i in range(0, 60000, 100):
                part = rows[i:i + 100]
                s.run(step, {x: data[0][part], y: data[1][part], training: True})
        found = sum(s.run(right, {x: data[2][i:i + 1000], y: data[3][i:i + 1000],
                                  training: False}) for i in range(0, 10000, 1000))
    return found / 10000


def main():
    data = (images("train-images-idx3-ubyte"),
            read("train-labels-idx1-ubyte", 8).astype(np.int64),
            images("t10k-images-idx3-ubyte"),
            read("t10k-labels-idx1-ubyte", 8).astype(np.int64))
    found = []
    for seed in [int(s) for s in sys.argv[2:]] or [1, 2, 3]:
        found.append(train(seed, data))
        print(f"seed {seed}: {found[-1]:.4f}", flush=True)
    print(f"median {statistics.median(found):.4f}")


main()
