import torch
from torch import nn

torch.manual_seed(17)


class Encoder(nn.Module):
    def __init__(self, n_feat, n_hid):
        super().__init__()
        self.rnn = nn.GRU(n_feat, n_hid)

    def forward(self, x):
        # the recurrent layer wants time first
        B, T, _ = x.size()
        h, _ = self.rnn(x.transpose(0, 1))
        return h.transpose(0, 1)


class PooledRegressor(nn.Module):
    def __init__(self, n_feat=3, n_hid=32):
        super().__init__()
        self.encoder = Encoder(n_feat, n_hid)
        self.readout = nn.Sequential(nn.Linear(n_hid, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        states = self.encoder(x)
        return self.readout(states.mean(dim=1)).squeeze(-1)


def batches(n, bs=32, steps=14):
    for _ in range(n):
        x = torch.randn(bs, steps, 3)
        # how often the first channel beats the second, centred
        y = (x[..., 0] > x[..., 1]).float().mean(1) * 2 - 1
        yield x, y * 3


model = PooledRegressor()
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
avg = None
for i, (x, y) in enumerate(batches(60)):
    mse = nn.functional.mse_loss(model(x), y)
    optimiser.zero_grad()
    mse.backward()
    optimiser.step()
    avg = mse.item() if avg is None else 0.9 * avg + 0.1 * mse.item()
    if i % 12 == 11:
        print(f"batch {i + 1}: running mse {avg:.4f}")
