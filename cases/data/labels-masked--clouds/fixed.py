"""Snow on satellite tiles; what lies under clouds is not to be learnt."""
import torch
import torch.nn.functional as F
from torch import nn

IGNORED = 255


def tiles(count, gen):
    """brightness in two bands, snow or not, and which pixels are under a cloud"""
    snow = (F.avg_pool2d(torch.rand(count, 1, 12, 12, generator=gen), 3, 1, 1) > 0.5).squeeze(1)
    bands = torch.stack([snow + 0.2 * torch.randn(snow.shape, generator=gen), 0.5 - 0.3 * snow], dim=1)
    cloudy = torch.zeros(snow.shape, dtype=torch.bool)
    cloudy[-2:, 2:6, 3:9] = True
    return bands, snow.long(), cloudy


class Tiles:
    def __init__(self, count, size):
        self.bands, self.snow, self.cloudy = tiles(count, torch.Generator().manual_seed(9))
        self.size = size

    def targets(self, rows):
        wanted = self.snow[rows].clone()
        seen = ~self.cloudy[rows]
        return torch.where(seen, wanted, torch.full_like(wanted, IGNORED))

    def batches(self):
        for rows in torch.randperm(len(self.snow)).split(self.size):
            yield self.bands[rows], self.targets(rows)


def main():
    torch.manual_seed(9)
    data = Tiles(160, 10)
    net = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss(ignore_index=IGNORED)
    for epoch in range(3):
        for bands, target in data.batches():
            loss = criterion(net(bands), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


main()
