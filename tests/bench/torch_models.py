"""The nets of models.py in PyTorch: forward, or a training step.

Eager, channels last. SAME is symmetric padding here, as its users write it.
SPDX-License-Identifier: Apache-2.0
"""
import torch
from torch.nn import functional as F

import models


class Net:
    """Weights made in the first pass over the steps, taken in turn after."""

    def __init__(self, training):
        self.training, self.weights, self.at = training, [], 0

    def weight(self, shape, value=None, trainable=True):
        if self.at == len(self.weights):
            if value is None:
                w = torch.randn(shape) * (2 / torch.Size(shape[1:]).numel()) ** 0.5
            else:
                w = torch.full(shape, value)
            if len(shape) == 4:
                w = w.to(memory_format=torch.channels_last)
            self.weights.append(w.requires_grad_(trainable and self.training))
        self.at += 1
        return self.weights[self.at - 1]

    def normalize(self, x, momentum, epsilon, scale):
        n = [x.shape[1]]
        gamma = self.weight(n, 1.0) if scale else None
        beta = self.weight(n, 0.0)
        mean, variance = self.weight(n, 0.0, False), self.weight(n, 1.0, False)
        return F.batch_norm(x, mean, variance, gamma, beta, self.training,
                            1 - momentum, epsilon)

    def conv(self, x, n, rows, columns, stride, padding, norm, relu):
        w = self.weight([n, x.shape[1], rows, columns])
        around = ((rows - 1) // 2, (columns - 1) // 2) if padding == "SAME" else 0
        x = F.conv2d(x, w, None if norm else self.weight([n], 0.0), stride, around)
        if norm:
            x = self.normalize(x, *norm)
        return F.relu(x) if relu else x

    def dense(self, x, n, relu):
        x = F.linear(x, self.weight([n, x.shape[1]]), self.weight([n], 0.0))
        return F.relu(x) if relu else x

    @staticmethod
    def pool(kind, x, size, stride, padding):
        around = (size - 1) // 2 if padding == "SAME" else 0
        if kind == "max":
            return F.max_pool2d(x, size, stride, around)
        return F.avg_pool2d(x, size, stride, around, count_include_pad=False)

    def apply(self, x, steps):
        for kind, *given in steps:
            if kind == "conv":
                x = self.conv(x, *given)
            elif kind == "dense":
                x = self.dense(x, *given)
            elif kind in ("max", "average"):
                x = self.pool(kind, x, *given)
            elif kind == "lrn":
                radius, bias, alpha, beta = given
                n = 2 * radius + 1
                x = F.local_response_norm(x, n, alpha * n, beta, bias)
            elif kind == "mean":
                x = x.mean((2, 3))
            elif kind == "flatten":
                x = x.flatten(1)
            elif kind == "dropout":
                x = F.dropout(x, given[0], self.training)
            else:
                parts = [self.apply(x, branch) for branch in given[0]]
                x = torch.cat(parts, 1) if kind == "fork" else F.relu(sum(parts))
        return x

    def __call__(self, x, steps):
        self.at = 0
        return self.apply(x, steps)


def row(name):
    """What one call of the row does."""
    training = name.endswith("_step")
    steps, (height, width, depth), batch = models.MODELS[name.removesuffix("_step")]
    x = torch.rand(batch, depth, height, width)
    x = x.to(memory_format=torch.channels_last)
    y = torch.arange(batch) % 10
    net = Net(training)
    if not training:
        return torch.no_grad()(lambda: net(x, steps)), 1
    net(x, steps)
    optimizer = torch.optim.SGD([w for w in net.weights if w.requires_grad],
                                lr=0.001)

    def work():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x, steps), y)
        loss.backward()
        optimizer.step()
        return loss.item()
    return work, 1
