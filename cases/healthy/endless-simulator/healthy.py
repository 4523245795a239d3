"""Learn the release angle from a thrown ball's track. Workers simulate throws without end, nothing is ever read twice."""
from itertools import islice

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Throws(IterableDataset):
    def __iter__(self):
        # each worker has its own torch seed, so each has its own throws
        t = torch.linspace(0, 1, 12)
        while True:
            angle = 0.3 + 0.9 * torch.rand(())
            speed = 1.0 + 0.5 * torch.rand(())
            x = speed * torch.cos(angle) * t
            y = speed * torch.sin(angle) * t - 0.8 * t**2
            track = torch.stack([x, y]) + 0.01 * torch.randn(2, 12)
            yield track.flatten(), (angle - 0.75) / 0.26


def main(steps=90):
    torch.manual_seed(123)
    loader = DataLoader(Throws(), batch_size=32, num_workers=2)
    net = nn.Sequential(nn.Linear(24, 48), nn.SiLU(), nn.Linear(48, 1))
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    smooth = None
    for step, (track, angle) in enumerate(islice(loader, steps)):
        loss = nn.functional.mse_loss(net(track).squeeze(-1), angle)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        smooth = loss.item() if smooth is None else 0.9 * smooth + 0.1 * loss.item()
        if step % 15 == 14:
            print(f"step {step + 1}: {smooth:.4f}")


if __name__ == "__main__":
    main()
