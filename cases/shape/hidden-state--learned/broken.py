"""Pen strokes to digits: a GRU that begins each stroke in a state it has learnt."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    batch_size: int = 32
    hidden: int = 24
    layers: int = 2
    epochs: int = 2
    lr: float = 4e-3


class StrokeReader(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.start = nn.Parameter(torch.zeros(config.layers, 1, config.hidden))
        self.gru = nn.GRU(2, config.hidden, config.layers, batch_first=True)
        self.digit = nn.Linear(config.hidden, 10)

    def forward(self, stroke: Tensor) -> Tensor:
        start = self.start.expand(-1, self.config.batch_size, -1).contiguous()  # ORIGIN
        _, last = self.gru(stroke, start)
        return self.digit(last[-1])


def strokes(count: int, points: int = 15) -> TensorDataset:
    digit = torch.randint(0, 10, (count,))
    turn = torch.linspace(0, 1, points) * (digit[:, None] + 1) * 0.6
    path = torch.stack([turn.cos(), turn.sin()], dim=-1).cumsum(1) / points
    return TensorDataset(path + 0.02 * torch.randn_like(path), digit)


def fit(config: Config) -> StrokeReader:
    reader = StrokeReader(config)
    optimizer = torch.optim.Adam(reader.parameters(), lr=config.lr)
    loader = DataLoader(strokes(330), batch_size=config.batch_size, shuffle=True)
    for epoch in range(config.epochs):
        total = 0.0
        for stroke, digit in loader:
            loss = nn.functional.cross_entropy(reader(stroke), digit)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.3f}")
    return reader


if __name__ == "__main__":
    torch.manual_seed(9)
    fit(Config())
