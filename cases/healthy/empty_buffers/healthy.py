"""Replay of sensor chunks through preallocated, uninitialised buffers that are always filled before they are read."""
import torch
from torch import nn


class RingBuffer:
    def __init__(self, capacity, *shape):
        self.data = torch.empty(capacity, *shape)
        self.size = self.head = 0

    def push(self, rows):
        where = (self.head + torch.arange(len(rows))) % len(self.data)
        self.data.index_copy_(0, where, rows)
        self.head = (self.head + len(rows)) % len(self.data)
        self.size = min(self.size + len(rows), len(self.data))

    def sample(self, n):
        return self.data[torch.randint(self.size, (n,))]


class OwnLinear(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_out, n_in))
        self.bias = nn.Parameter(torch.empty(n_out))
        nn.init.kaiming_uniform_(self.weight, a=5 ** 0.5)
        nn.init.zeros_(self.bias)

    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.bias)


torch.manual_seed(88)
model = nn.Sequential(OwnLinear(6, 24), nn.Tanh(), OwnLinear(24, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
replay = RingBuffer(256, 7)
mixing = torch.randn(6, 1)
scratch = torch.empty(16, 1)
stats = torch.empty(3).fill_(0.0)

for step in range(80):
    x = torch.randn(16, 6)
    torch.mm(x, mixing, out=scratch)
    rows = torch.empty(16, 7)
    rows[:, :6] = x
    rows[:, 6:].copy_(torch.tanh(scratch))
    replay.push(rows)
    batch = replay.sample(32)
    loss = nn.functional.mse_loss(model(batch[:, :6]), batch[:, 6:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    stats[step % 3] = loss.item()
    if step % 20 == 19:
        print(f"step {step} mean of the last three {stats.mean().item():.4f} rows stored {replay.size}")
