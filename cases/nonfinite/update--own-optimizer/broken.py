"""Matrix factorisation of film ratings with our own optimizer."""
import torch
from torch import nn

from yogi_broken import Yogi

N_USERS, N_FILMS, RANK = 40, 60, 4


class Ratings(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(N_USERS, RANK)
        self.film = nn.Embedding(N_FILMS, RANK)
        self.bias = nn.Embedding(N_FILMS, 1)
        for table in (self.user, self.film, self.bias):
            nn.init.normal_(table.weight, std=0.3)

    def forward(self, u, f):
        return (self.user(u) * self.film(f)).sum(-1) + self.bias(f).squeeze(-1)


def stream(n_batches, size, seed):
    g = torch.Generator().manual_seed(seed)
    taste = torch.randn(N_USERS, RANK, generator=g)
    style = torch.randn(N_FILMS, RANK, generator=g)
    for _ in range(n_batches):
        u = torch.randint(N_USERS, (size,), generator=g)
        f = torch.randint(N_FILMS, (size,), generator=g)
        yield u, f, (taste[u] * style[f]).sum(-1) / 2


torch.manual_seed(4)
model = Ratings()
opt = Yogi(model.parameters(), lr=2e-2)
for i, (u, f, stars) in enumerate(stream(50, 48, seed=6)):
    loss = nn.functional.mse_loss(model(u, f), stars)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 10 == 0:
        print(f"batch {i:2d} mse {loss.item():.4f}")
