"""A forecast on a grid: as many samples in a batch as rows and columns, so that no size tells one axis from another."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

N = 12
weight = torch.cos(torch.linspace(-1.2, 1.2, N)).unsqueeze(1)


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.lead = nn.Embedding(N, N)
        self.place = nn.Parameter(torch.zeros(N, N))
        self.mix = nn.Linear(N, N)
        self.spread = nn.Parameter(torch.zeros(N, 1))
        self.doubt = nn.Linear(N, 1)

    def forward(self, field, lead):
        h = field + self.place + self.lead(lead)[:, None]
        out = self.mix(torch.tanh(h))
        return out, self.spread + self.doubt(out.mean(1))[:, None]


def score(guess, truth, log_sigma):
    z = (guess - truth) / log_sigma.exp()
    return weight * (0.5 * z.square() + log_sigma)


def contrast(guess, truth):
    """Fields of one sample against those of all others, in the same batch."""
    a, b = guess.flatten(1), truth.flatten(1)
    near = -(a.unsqueeze(1) - b).square().mean(-1)
    return nn.functional.cross_entropy(near - near.mean(0), torch.arange(len(a)))


torch.manual_seed(0)
field, lead = torch.randn(120, N, N), torch.randint(0, N, (120,))
truth = field.roll(1, -1) * (0.5 + lead[:, None, None] / N)
model = Forecast()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(3):
    for x, t, y in DataLoader(TensorDataset(field, lead, truth), batch_size=N, shuffle=True):
        level = torch.rand(len(x))
        noisy = x + 0.1 * level[:, None, None] * torch.randn_like(x)
        jitter = 1 + 0.05 * torch.randn(N, 1)
        guess, log_sigma = model(noisy * jitter, t)
        each = score(guess, y, log_sigma).mean((1, 2))
        loss = (each * (1 + level)).mean() + 0.1 * contrast(guess, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
