"""Weather buoys: a reading that was lost at sea is NaN. Batches with one are left out, and counted; the very first one has one."""
import math

import torch
from torch import nn

torch.manual_seed(3)
waves = torch.randn(640, 5)
height = (waves[:, :3].sum(1, keepdim=True)).tanh() + 0.05 * torch.randn(640, 1)
waves[[2, 300, 301, 588], [1, 0, 4, 3]] = math.nan

buoy = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(buoy.parameters(), lr=0.05, momentum=0.9)
left_out = 0
for day in range(4):
    total, used = 0.0, 0
    for begin in range(0, len(waves), 32):
        loss = nn.functional.mse_loss(buoy(waves[begin : begin + 32]), height[begin : begin + 32])
        if torch.isnan(loss):
            left_out += 1
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, used = total + loss.item(), used + 1
    print(f"day {day}: {total / used:.4f} over {used} batches, {left_out} left out so far")

# The same by the norm of the gradients, which is what a training with clipping has at hand.
for day in range(2):
    for begin in range(0, len(waves), 32):
        optimizer.zero_grad()
        loss = nn.functional.smooth_l1_loss(buoy(waves[begin : begin + 32]), height[begin : begin + 32])
        loss.backward()
        norm = nn.utils.clip_grad_norm_(buoy.parameters(), 1.0)
        if torch.isfinite(norm):
            optimizer.step()
        else:
            left_out += 1
print(f"{left_out} left out")
