"""PyTorch's side of the benchmarks on a card: gpu_torch.py ROW eager|compiled [--small].

Channels last, cuDNN's search for the best algorithm, float32 products as they
come by default, as on our side. SPDX-License-Identifier: Apache-2.0
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

import models
import torch_models

ROW, HOW = sys.argv[1:3]
SMALL = "--small" in sys.argv
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
torch.backends.cudnn.benchmark = True
torch.set_default_device(DEVICE)


def size(large, little):
    return little if SMALL else large


def compiled(f):
    return torch.compile(f, mode="reduce-overhead") if HOW == "compiled" else f


def training(loss, parameters):
    optimizer = torch.optim.SGD(parameters, lr=0.001)
    loss = compiled(loss)

    def work():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        return value.item()
    return work, 1


def net(name, batch, pixels, least):
    n, p = size(batch, 2), size(pixels, least)
    x = torch.rand(n, 3, p, p).to(memory_format=torch.channels_last)
    y = torch.arange(n) % 10
    steps, made = models.GPU_MODELS[name], torch_models.Net(True)
    with torch.no_grad():
        made(x, steps)
    return training(lambda: F.cross_entropy(made(x, steps), y),
                    [w for w in made.weights if w.requires_grad])


def lstm(units):
    n, steps, words = size(20, 2), size(35, 4), size(10000, 50)
    units = size(units, 8)
    x = torch.randint(0, words, (n, steps + 1))
    table, cells = nn.Embedding(words, units), nn.LSTM(units, units, 2, batch_first=True)
    dense = nn.Linear(units, words)

    def loss():
        y, _ = cells(table(x[:, :-1]))
        return F.cross_entropy(dense(y).reshape(-1, words), x[:, 1:].reshape(-1))
    return training(loss, [p for m in (table, cells, dense) for p in m.parameters()])


def transformer():
    n, steps, heads, each = size(16, 2), size(512, 6), size(12, 2), size(64, 4)
    width = heads * each
    x = torch.randn(n, steps, width)
    qkv, out = nn.Linear(width, 3 * width), nn.Linear(width, width)
    up, down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    first, second = nn.LayerNorm(width), nn.LayerNorm(width)

    def loss():
        q, k, v = (t.reshape(n, steps, heads, each).transpose(1, 2)
                   for t in qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, steps, width)
        y = first(x + out(y))
        return second(y + down(F.relu(up(y)))).square().mean()
    return training(loss, [p for m in (qkv, out, up, down, first, second)
                           for p in m.parameters()])


def computed(f, units=1):
    f = compiled(f)

    def work():
        with torch.no_grad():
            return f().reshape(-1)[0].float().item()
    return work, units


def matmul_bf16():
    n = size(8192, 33)
    a, b = (torch.randn(n, n, dtype=torch.bfloat16) for _ in range(2))
    return computed(lambda: a @ b)


def tiny_kernels():
    n, x = size(1000, 50), torch.randn(256)

    def chain():
        y = x
        for _ in range(n):
            y = y + 1.0
        return y
    return computed(chain, n)


def elementwise():
    x = torch.ones(size(1 << 28, 1 << 10), 4)
    return computed(lambda: torch.tanh(x * 0.5 + 1.0) * x - 0.25)


def sparse():
    table = nn.Embedding(size(1000000, 100), size(64, 4), sparse=True)
    ids = torch.randint(0, table.num_embeddings, (size(1000, 10),))
    return training(lambda: table(ids).square().sum(), table.parameters())


NETS = {"alexnet": (128, 224, 64), "overfeat": (128, 231, 71), "vgg_a": (64, 224, 32),
        "googlenet": (128, 224, 32), "inception_v3": (64, 299, 75), "resnet50": (128, 224, 32)}
ROWS = {"lstm_650": lambda: lstm(650), "lstm_1500": lambda: lstm(1500),
        "transformer": transformer, "matmul_bf16": matmul_bf16, "tiny_kernels": tiny_kernels,
        "elementwise": elementwise, "sparse": sparse,
        **{name: lambda name=name: net(name, *NETS[name]) for name in NETS}}


def main():
    work, units = ROWS[ROW]()
    for _ in range(size(5, 1)):
        work()
    print("ready", flush=True)
    for _ in sys.stdin:
        times, took = 1, 0.0
        while True:  # at least 50 ms
            start = time.perf_counter()
            for _ in range(times):
                work()
            took = time.perf_counter() - start
            if SMALL or took >= 0.05:
                break
            times *= max(2, int(0.06 / took) + 1)
        print(f"{took / times / units:.9g}", flush=True)


main()
