"""Land cover from one band; the maps are coarser than the pictures, and one helper brings both to the size of the net."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

COVER = ("water", "sand", "grass", "shrub", "forest")


def resized(plane, side):
    return F.interpolate(plane.float()[None, None], size=(side, side), mode="bilinear")[0, 0]


class Plots(Dataset):
    def __init__(self, count):
        torch.manual_seed(5)
        self.maps = [torch.tensor([0, 2, 4])[torch.randint(0, 3, (4, 4))] for _ in range(count)]

    def __len__(self):
        return len(self.maps)

    def __getitem__(self, number):
        cover = self.maps[number]
        band = resized(cover / 4 + 0.05 * torch.randn(4, 4), 10)
        return {"band": band[None], "cover": resized(cover, 10).round().long()}  # ORIGIN


net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, len(COVER), 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(3):
    for plot in DataLoader(Plots(48), batch_size=8, shuffle=True):
        loss = F.cross_entropy(net(plot["band"]), plot["cover"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 3))
