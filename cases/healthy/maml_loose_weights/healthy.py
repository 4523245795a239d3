"""Learning to fit waves from ten points: inner steps keep their graph, the outer one makes new weights. No modules."""
import torch

torch.manual_seed(0)
SIZES = [(1, 16), (16,), (16, 1)]
weights = [(torch.randn(size) * 0.4).requires_grad_() for size in SIZES]


def wave(points):
    height, shift = torch.rand(2) * 2 + 0.5
    x = torch.rand(points, 1) * 4 - 2
    return x, height * torch.sin(x + shift)


def net(weights, x):
    return torch.tanh(x @ weights[0] + weights[1]) @ weights[2]


def error(weights, x, y):
    return (net(weights, x) - y).square().mean()


for round_ in range(160):
    outer = torch.zeros(())
    for _ in range(4):
        x, y = wave(20)
        slopes = torch.autograd.grad(error(weights, x[:10], y[:10]), weights, create_graph=True)
        adapted = [w - 0.05 * s for w, s in zip(weights, slopes)]
        outer = outer + error(adapted, x[10:], y[10:]) / 4
    slopes = torch.autograd.grad(outer, weights)
    weights = [(w - 0.02 * s).detach().requires_grad_() for w, s in zip(weights, slopes)]
    if round_ % 40 == 0:
        print(f"round {round_} error after one step {outer.item():.3f}")
