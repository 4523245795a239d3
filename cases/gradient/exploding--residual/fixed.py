import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return x + F.relu(self.fc(self.norm(x)))


class ResStack(nn.Module):
    def __init__(self, n_in, dim=32, depth=48):
        super().__init__()
        self.stem = nn.Linear(n_in, dim)
        self.blocks = nn.ModuleList([Block(dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).squeeze(-1)


def friedman(n):
    u = torch.rand(n, 5)
    y = 10 * torch.sin(3.14159 * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2 + 10 * u[:, 3] + 5 * u[:, 4]
    return (u - 0.5) * 3.46, (y - 14.4) / 4.9


torch.manual_seed(14)
model = ResStack(5)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
history = []
for it in range(60):
    x, y = friedman(64)
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if (it + 1) % 12 == 0:
        print(f"it {it + 1}: loss over the last dozen {sum(history[-12:]) / 12:.4g}")
