"""Norms where two axes happen to have the same size, and each has the one it is meant for."""
import torch
import torch.nn.functional as F
from torch import nn

WIDTH = WINDOW = 16


class OverTime(nn.Module):
    """Each channel is brought to one level over the window, on purpose."""

    def __init__(self, channels, window):
        super().__init__()
        self.conv = nn.Conv1d(3, channels, 3, padding=1)
        self.level = nn.LayerNorm(window, elementwise_affine=True)

    def forward(self, x):
        return self.level(self.conv(x)).amax(-1)


class OverAll(nn.Module):
    def __init__(self, channels, window):
        super().__init__()
        self.conv = nn.Conv1d(3, channels, 3, padding=1)
        self.norm = nn.LayerNorm([channels, window])
        self.groups = nn.GroupNorm(4, channels)

    def forward(self, x):
        return F.gelu(self.groups(self.norm(self.conv(x)))).mean(-1)


class Mixer(nn.Module):
    """Mixes over time and over features in turn."""

    def __init__(self, tokens, dim):
        super().__init__()
        self.lift = nn.Linear(3, dim)
        self.norms = nn.ModuleList([nn.LayerNorm(dim), nn.LayerNorm(dim)])
        self.over_time, self.over_features = nn.Linear(tokens, tokens), nn.Linear(dim, dim)

    def forward(self, x):
        h = self.lift(x.transpose(1, 2))
        h = h + self.over_time(self.norms[0](h).transpose(1, 2)).transpose(1, 2)
        return (h + self.over_features(self.norms[1](h))).mean(1)


class Forecast(nn.Module):
    """As many steps ahead as there are sensors; the norm is over the sensors."""

    def __init__(self):
        super().__init__()
        self.ahead = nn.Linear(16, 3)
        self.norm = nn.LayerNorm(3)

    def forward(self, x):
        return self.norm(self.ahead(x).transpose(1, 2)).flatten(1)


class Attending(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lift = nn.Conv1d(3, dim, 1)
        self.place = nn.Parameter(torch.zeros(1, WINDOW, dim))
        self.layer = nn.TransformerEncoderLayer(dim, 2, 32, batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        return self.norm(self.layer(self.lift(x).transpose(1, 2) + self.place)).mean(1)


torch.manual_seed(6)
for body, out in (
    (OverTime(WIDTH, WINDOW), WIDTH),
    (OverAll(WIDTH, WINDOW), WIDTH),
    (Mixer(WINDOW, WIDTH), WIDTH),
    (Forecast(), 9),
    (Attending(WIDTH), WIDTH),
):
    model = nn.Sequential(body, nn.Linear(out, 2))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(8):
        y = torch.randint(2, (32,))
        x = torch.randn(32, 3, WINDOW) + 0.8 * y[:, None, None] * torch.sin(torch.linspace(0, 9, WINDOW))
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{type(body).__name__:10s} {loss.item():.3f}")
