"""Tide heights by a network in a few loose tensors; each step makes new ones, as the adaptation at the harbour does later."""
import torch

torch.manual_seed(5)
hours = torch.rand(192, 6) * 2 - 1
height = torch.sin(3 * hours[:, :1]) + 0.5 * hours[:, 1:2] * hours[:, 2:3]


def predict(layers, x):
    for weight, bias in zip(layers[:-2:2], layers[1:-2:2]):
        x = torch.tanh(x @ weight + bias)
    return x @ layers[-2] + layers[-1]


def adapted(layers, x, y, rate):
    error = (predict(layers, x) - y).square().mean()
    slopes = torch.autograd.grad(error, layers)
    layers = [(each - rate * slope).detach().requires_grad_() for each, slope in zip(layers, slopes)]
    return layers, error.item()


sizes = [(6, 64), (64,), (64, 64), (64,), (64, 1), (1,)]
layers = [(torch.randn(size) * 0.2).requires_grad_() for size in sizes]
for step in range(40):
    layers, error = adapted(layers, hours, height, 0.1)
    if step % 10 == 0:
        print(step, round(error, 3))
