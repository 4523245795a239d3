"""A classifier with a method for probabilities, written out by hand."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
        self.head = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        scores = self(x)
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        return weights / weights.sum(-1, keepdim=True)


def main() -> None:
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(24):
        x = torch.randn(32, 8)
        label = x[:, :4].argmax(1)
        loss = nn.functional.cross_entropy(net(x), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    sure = net.probabilities(x).gather(1, label[:, None]).mean()
    print(step, round(loss.item(), 3), round(sure.item(), 3))


main()
