"""Stateful forecasting: 8 parallel streams read in order, the LSTM state carried (detached) from window to window."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, SequentialSampler

STREAMS, WINDOW = 8, 20


class Windows(Dataset):
    """Item k is window k of every stream: (STREAMS, WINDOW) inputs and the values one tick later."""

    def __init__(self, series):
        self.series = series
        self.count = (series.size(1) - 1) // WINDOW

    def __len__(self):
        return self.count

    def __getitem__(self, k):
        a = k * WINDOW
        return self.series[:, a : a + WINDOW], self.series[:, a + 1 : a + WINDOW + 1]


class Forecaster(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.cell = nn.LSTM(1, hidden, batch_first=True)
        self.read = nn.Linear(hidden, 1)

    def forward(self, x, state=None):
        h, state = self.cell(x.unsqueeze(-1), state)
        return self.read(h).squeeze(-1), state


def detach(state):
    return tuple(s.detach() for s in state)


def simulate(ticks):
    t = torch.arange(ticks) * 0.25
    pace = torch.linspace(0.6, 1.4, STREAMS).unsqueeze(1)
    return torch.sin(pace * t) + 0.3 * torch.sin(2.7 * pace * t) + 0.02 * torch.randn(STREAMS, ticks)


torch.manual_seed(60)
series = simulate(401)
split = 301
data = Windows(series[:, :split])
loader = DataLoader(data, sampler=SequentialSampler(data), batch_size=None)  # windows must come in order
model = Forecaster()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(8):
    state, total = None, 0.0
    for x, y in loader:
        pred, state = model(x, state)
        loss = (pred - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        state = detach(state)
        total += loss.item()
    if epoch in (0, 3, 7):
        print(f"epoch {epoch} train mse {total / len(loader):.4f}")

model.eval()
with torch.no_grad():
    _, state = model(series[:, : split - 1])            # warm the state on the past
    pred, _ = model(series[:, split - 1 : -1], state)
    print(f"future mse {(pred - series[:, split:]).pow(2).mean().item():.4f}")
