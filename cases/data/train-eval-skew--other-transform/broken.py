"""Mushrooms by the colour of their caps: photographs become tensors by a chain of small functions."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(26)
CENTRE = torch.tensor([0.55, 0.45, 0.35]).view(3, 1, 1)
SPREAD = torch.tensor([0.10, 0.09, 0.08]).view(3, 1, 1)


def unit(picture):
    return picture.float().div(255)


def standard(picture):
    return (picture - CENTRE) / SPREAD


def mirrored(picture):
    return picture.flip(-1) if torch.rand(()) < 0.5 else picture


def chain(*functions):
    def run(picture):
        for function in functions:
            picture = function(picture)
        return picture

    return run


class Caps(Dataset):
    colours = torch.tensor([[0.62, 0.40, 0.30], [0.50, 0.52, 0.34], [0.55, 0.44, 0.44]])

    def __init__(self, count, prepare):
        self.kinds = torch.randint(0, 3, (count,))
        pictures = self.colours[self.kinds].view(count, 3, 1, 1) + 0.08 * torch.randn(count, 3, 8, 8)
        self.pictures = pictures.clamp(0, 1).mul(255).to(torch.uint8)
        self.prepare = prepare

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, number):
        return self.prepare(self.pictures[number]), self.kinds[number]


def evaluate(net, loader):
    net.eval()
    right = 0
    with torch.no_grad():
        for pictures, kinds in loader:
            right += (net(pictures).argmax(1) == kinds).sum().item()
    net.train()
    return right / len(loader.dataset)


def main():
    while_training = chain(unit, mirrored, standard)
    while_testing = chain(unit)  # ORIGIN
    training = DataLoader(Caps(360, while_training), batch_size=24, shuffle=True)
    testing = DataLoader(Caps(120, while_testing), batch_size=60)
    net = nn.Sequential(nn.Conv2d(3, 12, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(3):
        for pictures, kinds in training:
            loss = nn.functional.cross_entropy(net(pictures), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}, test accuracy {evaluate(net, testing):.3f}")


main()
