"""Curriculum: samples come from easy to hard without shuffling across lessons; validation in between without eval(), as nothing depends on the mode."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class Lessons(Sampler):
    """easy first; inside a lesson the order is random"""

    def __init__(self, difficulty, lessons, upto):
        self.parts = difficulty.argsort().chunk(lessons)[:upto]

    def __len__(self):
        return sum(len(p) for p in self.parts)

    def __iter__(self):
        for part in self.parts:
            yield from part[torch.randperm(len(part))].tolist()


def parity_like(n, g):
    """how many of the leading entries are positive; the length (difficulty) varies from 1 to 4"""
    length = torch.randint(1, 5, (n,), generator=g)
    x = torch.randn(n, 4, generator=g)
    used = torch.arange(4) < length[:, None]
    y = ((x > 0) & used).sum(1)
    return torch.cat([x * used, used.float()], dim=1), y, length


def main():
    g = torch.Generator().manual_seed(9)
    torch.manual_seed(9)
    x, y, length = parity_like(480, g)
    xv, yv, _ = parity_like(200, g)
    data = TensorDataset(x, y)
    net = nn.Sequential(nn.Linear(8, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 5))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(10):
        upto = min(4, 1 + epoch)
        loader = DataLoader(data, batch_size=48, sampler=Lessons(length, 4, upto))
        seen = 0.0
        for xb, yb in loader:
            loss = nn.functional.cross_entropy(net(xb), yb)
            loss.backward()
            opt.step()
            opt.zero_grad()
            seen += loss.item() / len(loader)
        with torch.no_grad():
            val = nn.functional.cross_entropy(net(xv), yv).item()
        if epoch % 3 == 0:
            print(f"epoch {epoch} lessons {upto} loss {seen:.3f} valid {val:.3f}")


main()
