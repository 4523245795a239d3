import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Forecaster(nn.Module):
    def __init__(self, n_inputs=3, n_hidden=32, n_layers=1):
        super().__init__()
        self.n_hidden = n_hidden
        self.n_layers = n_layers
        self.lstm = nn.LSTM(n_inputs, n_hidden, n_layers, batch_first=True)
        self.linear = nn.Linear(n_hidden, 1)

    def forward(self, x):
        h0 = torch.zeros(self.n_layers, x.size(0), self.n_hidden)
        c0 = torch.zeros(self.n_layers, x.size(0), self.n_hidden)
        out, (hn, cn) = self.lstm(x, (h0, c0))
        return self.linear(out[:, -1, :])


def make_windows(series, width):
    xs, ys = [], []
    for i in range(len(series) - width):
        xs.append(series[i:i + width])
        ys.append(series[i + width, :1])
    return torch.stack(xs), torch.stack(ys)


def main():
    torch.manual_seed(0)
    t = torch.arange(260, dtype=torch.float32)
    series = torch.stack([torch.sin(t / 9), torch.cos(t / 9), torch.sin(2 * math.pi * t / 7)], dim=1)
    x, y = make_windows(series, width=20)

    model = Forecaster()
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)

    for epoch in range(2):
        epoch_loss = 0.0
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()
            epoch_loss += loss.item()
        print(f"Epoch {epoch + 1}, loss {epoch_loss / len(loader):.5f}")


main()
