"""Faults of a pump, from twelve sensors read twelve times a minute."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SENSORS = READINGS = 12


class PumpNet(nn.Module):
    def __init__(self, n_sensors: int, width: int = 32):
        super().__init__()
        self.level = nn.BatchNorm1d(n_sensors)
        self.drop = nn.Dropout(0.1)
        self.read = nn.LSTM(n_sensors, width, batch_first=True)
        self.fault = nn.Linear(width, 3)

    def forward(self, minute: torch.Tensor) -> torch.Tensor:
        levelled = self.drop(self.level(minute))  # ORIGIN
        states, _ = self.read(levelled)
        return self.fault(states[:, -1])


def minutes(n: int) -> TensorDataset:
    fault = torch.randint(3, (n,))
    scale = torch.logspace(-1, 2, SENSORS)
    minute = torch.randn(n, READINGS, SENSORS)
    minute[torch.arange(n), :, fault] += torch.linspace(0, 2, READINGS)
    return TensorDataset(minute * scale, fault)


if __name__ == "__main__":
    torch.manual_seed(3)
    loader = DataLoader(minutes(480), batch_size=40, shuffle=True)
    net = PumpNet(SENSORS)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(4):
        for minute, fault in loader:
            loss = F.cross_entropy(net(minute), fault)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
