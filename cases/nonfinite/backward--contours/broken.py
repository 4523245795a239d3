"""Outlines with any number of corners: a policy walks around each, and the length of every edge counts."""

import math
import random

import torch

torch.manual_seed(0)
random.seed(0)
shift = torch.zeros(2, requires_grad=True)
scale = torch.ones((), requires_grad=True)
optimizer = torch.optim.SGD([shift, scale], lr=1e-3)


def outline(turn):
    corners = [(math.cos(k) + random.gauss(0, 0.1), math.sin(k)) for k in range(random.randint(3, 9))]
    if turn > 170:
        # Closed by hand: the last corner is drawn twice.
        corners.append(corners[-1])
    return corners


def length(points):
    total = points.new_zeros(())
    for before, after in zip(points, points[1:]):
        edge = after - before
        total = total + edge.pow(2).sum().sqrt()  # ORIGIN
    return total


turn = 0
while turn < 200:
    corners = outline(turn)
    points = torch.tensor(corners) * scale + shift
    loss = (length(points) - 0.5 * len(corners)) ** 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    turn += 1
print(f"scale {scale.item():.4f}")
