"""The nets of models.py in TensorFlow: forward, or a training step.

SPDX-License-Identifier: Apache-2.0
"""
import numpy as np
import tensorflow.compat.v1 as tf

import models


class Builder:
    """Applies steps, making a variable wherever one is needed."""

    def __init__(self, training):
        self.training, self.updates = training, []

    def weight(self, shape, value=None, trainable=True):
        if value is None:
            inputs = np.prod(shape[:-1])
            value = tf.random.normal(shape, stddev=(2 / inputs) ** 0.5)
        else:
            value = tf.fill(shape, value)
        return tf.Variable(value, trainable=trainable, use_resource=True)

    def follow(self, moving, x, rate):
        self.updates.append(moving.assign_sub((moving - x) * rate).op)

    def normalize(self, x, momentum, epsilon, scale):
        n = [int(x.shape[-1])]
        gamma = self.weight(n, 1.0) if scale else tf.ones(n)
        beta = self.weight(n, 0.0)
        mean, variance = self.weight(n, 0.0, False), self.weight(n, 1.0, False)
        if not self.training:
            return tf.nn.fused_batch_norm(x, gamma, beta, mean, variance,
                                          epsilon, is_training=False)[0]
        y, m, v = tf.nn.fused_batch_norm(x, gamma, beta, epsilon=epsilon)
        self.follow(mean, m, 1 - momentum)
        self.follow(variance, v, 1 - momentum)
        return y

    def conv(self, x, n, rows, columns, stride, padding, norm, relu):
        w = self.weight([rows, columns, int(x.shape[-1]), n])
        x = tf.nn.conv2d(x, w, stride, padding)
        if norm:
            x = self.normalize(x, *norm)
        else:
            x = tf.nn.bias_add(x, self.weight([n], 0.0))
        return tf.nn.relu(x) if relu else x

    def dense(self, x, n, relu):
        x = tf.matmul(x, self.weight([int(x.shape[-1]), n]))
        x = tf.nn.bias_add(x, self.weight([n], 0.0))
        return tf.nn.relu(x) if relu else x

    def apply(self, x, steps):
        plain = {"conv": self.conv, "dense": self.dense,
                 "max": tf.nn.max_pool2d, "average": tf.nn.avg_pool2d}
        for kind, *given in steps:
            if kind in plain:
                x = plain[kind](x, *given)
            elif kind == "mean":
                x = tf.reduce_mean(x, [1, 2])
            elif kind == "flatten":
                x = tf.reshape(x, [int(x.shape[0]), -1])
            elif kind == "dropout":
                x = tf.nn.dropout(x, rate=given[0]) if self.training else x
            else:
                parts = [self.apply(x, branch) for branch in given[0]]
                x = (tf.concat(parts, 3) if kind == "fork"
                     else tf.nn.relu(tf.add_n(parts)))
        return x


def row(name, session):
    """What one call of the row does, given a function that makes sessions."""
    training = name.endswith("_step")
    steps, shape, batch = models.MODELS[name.removesuffix("_step")]
    x = tf.placeholder(tf.float32, [batch, *shape])
    y = tf.placeholder(tf.int64, [batch])
    builder = Builder(training)
    logits = builder.apply(x, steps)
    fetches = [logits.op]
    if training:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=y, logits=logits))
        train = tf.train.GradientDescentOptimizer(0.001).minimize(loss)
        fetches = [loss, tf.group(train, *builder.updates)]
    s = session()
    s.run(tf.global_variables_initializer())
    step = s.make_callable(fetches, feed_list=[x, y])
    images = np.random.rand(batch, *shape).astype(np.float32)
    labels = np.arange(batch) % 10
    return lambda: step(images, labels), 1
