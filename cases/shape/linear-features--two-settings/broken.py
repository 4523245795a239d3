"""Apples on a belt, sorted by what a camera sees of them."""
import torch
from torch import nn

from settings import Settings


class AppleSorter(nn.Module):
    def __init__(self, setup):
        super().__init__()
        first, second = setup.widths
        self.look = nn.Sequential(
            nn.Conv2d(3, first, 3, padding=1), nn.BatchNorm2d(first), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(first, second, 3, padding=1), nn.BatchNorm2d(second), nn.ReLU(), nn.AvgPool2d(2),
        )
        left = setup.side // 4
        features = second * left**2
        self.kind = nn.Linear(features, setup.kinds)

    def forward(self, x):
        return self.kind(self.look(x).flatten(1))


setup = Settings()
torch.manual_seed(0)
pixels = setup.camera.pixels
frames = torch.rand(setup.camera.frames, 3, pixels, pixels)
kinds = torch.randint(0, setup.sorter.kinds, (setup.camera.frames,))
model = AppleSorter(setup.sorter)
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for rows in torch.randperm(len(frames)).split(16):
    loss = nn.functional.cross_entropy(model(frames[rows]), kinds[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(round(loss.item(), 3))
