import torch
from torch import nn


class Swish(nn.Module):
    """x * sigmoid(beta * x) with a learned beta."""

    def __init__(self):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x / (1 + torch.exp(-self.beta * x))  # ORIGIN
