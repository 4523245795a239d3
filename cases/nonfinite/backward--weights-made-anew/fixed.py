"""Colours apart: an embedding trained in functional style, with weights that are made anew in every step."""
import torch

generator = torch.Generator().manual_seed(9)


def weights(*sizes):
    return [torch.randn(size, generator=generator).mul(0.5).requires_grad_() for size in sizes]


def place(tree, colours):
    first, second = tree
    return torch.sigmoid(colours @ first) @ second


def spread(tree, colours):
    at = place(tree, colours)
    apart = (at.unsqueeze(0) - at.unsqueeze(1)).square().sum(2).add(1e-8).sqrt()
    pairs = torch.triu(torch.ones_like(apart), 1)
    return ((apart - 1) ** 2 * pairs).sum() / pairs.sum()


def moved(tree, gradients, rate):
    return [(old - rate * by).detach().requires_grad_() for old, by in zip(tree, gradients)]


tree = weights((3, 16), (16, 2))
for turn in range(40):
    colours = torch.rand(12, 3, generator=generator)
    value = spread(tree, colours)
    tree = moved(tree, torch.autograd.grad(value, tree), 0.1)
    if turn % 10 == 0:
        print(turn, value.item())
