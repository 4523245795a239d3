"""Walks of any length; the program looks at its loss itself, and stops when that is no number."""

import random

import torch
from torch import nn


class Walker:
    def __init__(self, walls_from):
        self.policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-3)
        self.walls_from = walls_from

    def entropy(self, walk):
        found = []
        for _ in range(random.randint(4, 12)):
            chances = torch.softmax(self.policy(torch.randn(3)), dim=-1)
            if walk >= self.walls_from:
                chances = chances * torch.tensor([1.0, 1.0, 0.0])
            found.append(-(chances * chances.clamp(min=1e-12).log()).sum())
        return torch.stack(found).mean()

    def train(self, walks):
        for walk in range(walks):
            loss = -self.entropy(walk)
            if not torch.isfinite(loss):
                raise ValueError(f"the loss of walk {walk} is {loss.item()}")
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    random.seed(0)
    Walker(walls_from=141).train(160)
    print("done")
