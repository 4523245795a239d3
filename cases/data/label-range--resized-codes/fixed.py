"""Soil maps: codes of the survey become classes by a table, after the map has the size of the satellite picture."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

CODES = {10: 0, 40: 1, 90: 2}
torch.manual_seed(3)


def to_classes():
    table = torch.arange(128)
    table[list(CODES)] = torch.tensor(list(CODES.values()))
    return table


class SoilMaps(Dataset):
    def __init__(self, count):
        codes = torch.tensor(list(CODES))
        self.surveys = [codes[torch.randint(0, 3, (4, 4))].to(torch.uint8) for _ in range(count)]
        self.table = to_classes()

    def __len__(self):
        return len(self.surveys)

    def __getitem__(self, number):
        survey = self.surveys[number].float().view(1, 1, 4, 4)
        picture = F.interpolate(survey, scale_factor=4) / 90 + 0.05 * torch.randn(1, 1, 16, 16)
        survey = F.interpolate(survey, size=(16, 16), mode="nearest")
        soil = self.table[survey.to(torch.int64)]
        return {"picture": picture[0], "soil": soil[0, 0]}


net = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 3, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(2):
    for item in DataLoader(SoilMaps(96), batch_size=8, shuffle=True):
        loss = F.cross_entropy(net(item["picture"]), item["soil"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 3))
