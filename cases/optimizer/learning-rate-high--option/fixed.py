"""What a parcel weighs, from its sides. The settings come from the command line."""
import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--learning-rate", type=float, default=0.05)
settings = parser.parse_args()

torch.manual_seed(0)
sides = torch.randn(320, 6)
weight = sides @ torch.randn(6, 1)
scale = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(scale.parameters(), lr=settings.learning_rate)
for epoch in range(3):
    for begin in range(0, 320, settings.batch_size):
        batch = slice(begin, begin + settings.batch_size)
        loss = nn.functional.mse_loss(scale(sides[batch]), weight[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{epoch} {loss.item():.4g}")
