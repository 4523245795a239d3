"""The k strongest detections of each scan are kept and scored; the ranking is done in numpy."""

import numpy as np
import torch
from torch import nn

KEEP = 4


class Scanner(nn.Module):
    def __init__(self, features=6, width=20):
        super().__init__()
        self.describe = nn.Sequential(nn.Linear(features, width), nn.Tanh())
        self.judge = nn.Linear(KEEP * width, 1)

    def strongest(self, found):
        strength = found[:, :, 0].detach().numpy()
        table = found.detach().numpy()  # ORIGIN
        kept = [rows[np.argsort(-each)[:KEEP]] for rows, each in zip(table, strength)]
        return torch.from_numpy(np.stack(kept))

    def forward(self, scan):
        return self.judge(self.strongest(self.describe(scan)).flatten(1))[:, 0]


def scans(count):
    scan = torch.randn(count, 9, 6)
    return scan, scan[:, :, 1].amax(1)


torch.manual_seed(3)
scanner = Scanner()
optimizer = torch.optim.RMSprop(scanner.parameters(), lr=2e-3)
for step in range(60):
    scan, peak = scans(24)
    loss = nn.functional.huber_loss(scanner(scan), peak)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
