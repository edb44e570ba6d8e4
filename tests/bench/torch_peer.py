"""PyTorch's side: eager mode, its own thread settings."""
import torch

import peer

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


ROWS = {"mlp_step": mlp_step}
for size in (64, 512, 1024, 2048):
    ROWS[f"sgemm_{size}"] = lambda n=size: sgemm(n)

peer.serve(*ROWS[ROW]())
