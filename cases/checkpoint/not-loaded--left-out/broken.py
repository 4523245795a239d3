"""Keystroke dynamics: the tower that was trained on many users is taken over for one."""
import os
import tempfile

import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, keys=30, dim=16):
        super().__init__()
        self.emb = nn.Embedding(keys, dim)
        self.gru = nn.GRU(dim + 1, dim, batch_first=True)

    def forward(self, keys, gaps):
        return self.gru(torch.cat([self.emb(keys), gaps.unsqueeze(-1)], -1))[1][0]


class Identifier(nn.Module):
    """Who is typing?"""

    def __init__(self, users):
        super().__init__()
        self.tower = Tower()
        self.out = nn.Linear(16, users)

    def forward(self, keys, gaps):
        return self.out(self.tower(keys, gaps))


class Verifier(nn.Module):
    """Is it the owner?"""

    def __init__(self):
        super().__init__()
        self.typing = Tower()
        self.out = nn.Linear(16, 2)

    def forward(self, keys, gaps):
        return self.out(self.typing(keys, gaps))


def typed(user, n):
    keys = torch.randint(30, (n, 10))
    return keys, torch.rand(n, 10) * 0.3 + 0.1 * torch.sin(keys * (user.float()[:, None] + 1))


def train(model, label, steps):
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        user = torch.randint(4, (32,))
        loss = nn.functional.cross_entropy(model(*typed(user, 32)), label(user))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(type(model).__name__, f"{loss.item():.3f}")


def take_over(model, path):
    pretrained = torch.load(path, weights_only=True)
    state = {name: weight for name, weight in pretrained["weights"].items() if name in model.typing.state_dict()}
    model.typing.load_state_dict(state, strict=False)  # ORIGIN


torch.manual_seed(20)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "identifier.pt")
    identifier = Identifier(4)
    train(identifier, lambda user: user, 60)
    torch.save({"weights": identifier.state_dict(), "users": 4}, path)
    verifier = Verifier()
    take_over(verifier, path)
train(verifier, lambda user: (user == 2).long(), 30)
