"""PyTorch's side: eager mode, its own thread settings."""
import torch

import models
import peer
import torch_models

ROW, THREADS = peer.arguments()
torch.set_num_threads(THREADS)


def mlp_step():
    images = torch.rand(100, 784)
    labels = torch.arange(100) % 10
    w1 = (torch.randn(784, 100) * 0.05).requires_grad_()
    b1 = torch.zeros(100, requires_grad=True)
    w2 = (torch.randn(100, 10) * 0.05).requires_grad_()
    b2 = torch.zeros(10, requires_grad=True)
    parameters = [w1, b1, w2, b2]
    optimizer = torch.optim.SGD(parameters, lr=0.01)

    def work():
        optimizer.zero_grad()
        h = torch.relu(torch.addmm(b1, images, w1))
        loss = torch.nn.functional.cross_entropy(torch.addmm(b2, h, w2), labels)
        loss.backward()
        optimizer.step()
    return work, 1


def sgemm(n):
    a, b, c = torch.rand(n, n), torch.rand(n, n), torch.empty(n, n)
    return lambda: torch.mm(a, b, out=c), 1


def convolution(batch, size, deep, wide, k, stride, backward):
    last = torch.channels_last
    x = torch.rand(batch, deep, size, size).to(memory_format=last)
    w = torch.rand(wide, deep, k, k).to(memory_format=last)
    before = max((size - 1) // stride * stride + k - size, 0) // 2
    after = max((size - 1) // stride * stride + k - size, 0) - before
    if before != after:  # SAME puts the odd one at the end
        x = torch.nn.functional.pad(x, (0, 1, 0, 1))

    def forward():
        return torch.nn.functional.conv2d(x, w, stride=stride, padding=before)

    if not backward:
        return torch.no_grad()(forward), 1
    of = [x.requires_grad_(), w] if deep > 3 else [w]
    w.requires_grad_()
    dy = torch.rand_like(forward())
    return lambda: torch.autograd.grad(forward(), of, dy), 1


def transform(op, lines, n):
    x = torch.randn(lines, n)
    x = x if op == "rfft" else torch.complex(x, x * 0.5)
    f = getattr(torch.fft, {"fft2d": "fft2"}.get(op, op))
    return lambda: f(x), 1


def softmax_xent():
    logits = torch.randn(400, 10000, requires_grad=True)
    labels = torch.randint(0, 10000, (400,))

    def work():
        loss = torch.nn.functional.cross_entropy(logits, labels)
        return torch.autograd.grad(loss, logits)
    return work, 1


def sparse_sgd():
    table = torch.randn(100000, 64, requires_grad=True)
    ids = torch.randint(0, 100000, (1000,))
    optimizer = torch.optim.SGD([table], lr=0.01)

    def work():
        optimizer.zero_grad()
        rows = torch.nn.functional.embedding(ids, table, sparse=True)
        rows.square().sum().backward()
        optimizer.step()
    return work, 1


def ptb_lstm_step():
    words = torch.randint(0, 10000, (20, 20))
    embedding = torch.nn.Embedding(10000, 200)
    lstm = torch.nn.LSTM(200, 200, 2)
    dense = torch.nn.Linear(200, 10000)
    parameters = [p for m in (embedding, lstm, dense) for p in m.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1.0)

    def work():
        optimizer.zero_grad()
        h, _ = lstm(embedding(words))
        loss = torch.nn.functional.cross_entropy(
            dense(h.reshape(-1, 200)), words.reshape(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 5.0)
        optimizer.step()
    return work, 1


ROWS = {"mlp_step": mlp_step, "softmax_xent": softmax_xent,
        "sparse_sgd": sparse_sgd, "ptb_lstm_step": ptb_lstm_step}
for size in (64, 512, 1024, 2048):
    ROWS[f"sgemm_{size}"] = lambda n=size: sgemm(n)
for name, sizes in peer.CONVOLUTIONS.items():
    ROWS[name] = lambda s=sizes: convolution(*s, False)
    ROWS[f"{name}_step"] = lambda s=sizes: convolution(*s, True)
for name, how in peer.TRANSFORMS.items():
    ROWS[name] = lambda h=how: transform(*h)

for name in models.MODELS:
    for suffix in ("", "_step"):
        ROWS[name + suffix] = lambda r=name + suffix: torch_models.row(r)

peer.serve(*ROWS[ROW]())
