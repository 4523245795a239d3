"""A GAN whose real and made-up samples go through one helper, several steps of each in turn."""
import torch
from torch import nn


def bce(scores, flag):
    return nn.functional.binary_cross_entropy_with_logits(scores, torch.full_like(scores, float(flag)))


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


torch.manual_seed(14)
maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
judge = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
for_maker = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.9))
for_judge = torch.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.9))
ring = torch.randn(256, 2)
ring = 2 * ring / ring.norm(dim=1, keepdim=True)

for turn in range(12):
    lost = [0.0, 0.0]
    for flag in (1, 0):
        for k in range(4):
            real = ring[64 * k:64 * (k + 1)]
            shown = real if flag else maker(torch.randn(64, 4)).detach()
            lost[flag] += update(for_judge, bce(judge(shown), flag))
    made = update(for_maker, bce(judge(maker(torch.randn(64, 4))), 1))
    if turn % 4 == 3:
        print(f"turn {turn}: judge {lost[0] / 4:.3f} {lost[1] / 4:.3f}, maker {made:.3f}")
