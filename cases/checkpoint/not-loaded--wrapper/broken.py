import os
import tempfile
from dataclasses import dataclass

import torch
from torch import Tensor, nn, optim


@dataclass
class Settings:
    features: int = 9
    hidden: int = 40
    rounds: int = 80
    rate: float = 4e-3


def build(s: Settings) -> nn.Module:
    return nn.Sequential(nn.Linear(s.features, s.hidden), nn.SiLU(), nn.LayerNorm(s.hidden), nn.Linear(s.hidden, 1))


class Experiment(nn.Module):
    """Holds the network and its loss, so that a step is one call."""

    def __init__(self, s: Settings):
        super().__init__()
        self.network = build(s)
        self.loss = nn.SmoothL1Loss()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.loss(self.network(x).squeeze(1), y)


def measure(n: int, s: Settings) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, s.features)
    return x, x[:, 0] * x[:, 1] + 0.5 * x[:, 2]


def train(s: Settings, target: str) -> None:
    experiment = Experiment(s)
    adam = optim.Adam(experiment.parameters(), lr=s.rate)
    for _ in range(s.rounds):
        loss = experiment(*measure(64, s))
        adam.zero_grad()
        loss.backward()
        adam.step()
    torch.save(experiment.state_dict(), target)


def deploy(s: Settings, source: str) -> nn.Module:
    network = build(s)
    weights = torch.load(source, weights_only=True)
    network.load_state_dict(weights, strict=True)  # ORIGIN
    return network.eval()


if __name__ == "__main__":
    torch.manual_seed(4)
    settings = Settings()
    with tempfile.TemporaryDirectory() as folder:
        where = os.path.join(folder, "weights.pt")
        train(settings, where)
        x, y = measure(128, settings)
        with torch.no_grad():
            print("error", (deploy(settings, where)(x).squeeze(1) - y).abs().mean().item())
