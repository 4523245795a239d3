"""Denoise linear camera pixels; the loss is taken after the display curve."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Develop(nn.Module):
    """Residual conv block followed by the 2.2 display curve."""

    def __init__(self, width=8):
        super().__init__()
        self.a = nn.Conv2d(1, width, 3, padding=1)
        self.b = nn.Conv2d(width, 1, 3, padding=1)
        nn.init.normal_(self.b.weight, std=0.02)
        nn.init.zeros_(self.b.bias)

    def forward(self, raw):
        light = raw + self.b(F.silu(self.a(raw)))
        return light ** (1 / 2.2)  # ORIGIN


class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.develop = Develop()
        self.offset = nn.Parameter(torch.zeros(()))

    def forward(self, raw):
        shown = checkpoint(self.develop, raw, use_reentrant=False)
        return shown + self.offset


def exposures(steps, g):
    for k in range(steps):
        scene = torch.rand(6, 1, 12, 12, generator=g) * 0.5 + 0.3
        if k >= 5:                                   # night shots
            scene = scene * 0.02
        noisy = (scene + 0.01 * torch.randn(scene.shape, generator=g)).clamp(min=0)
        yield noisy, scene ** (1 / 2.2)


def main():
    torch.manual_seed(12)
    model = Pipeline()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    g = torch.Generator().manual_seed(99)
    log = []
    for raw, wanted in exposures(14, g):
        loss = F.mse_loss(model(raw), wanted)
        opt.zero_grad()
        loss.backward()
        opt.step()
        log.append(round(loss.item(), 5))
    print(log)


if __name__ == "__main__":
    main()
