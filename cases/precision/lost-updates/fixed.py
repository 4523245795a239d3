import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up = nn.Linear(d, 2 * d)
        self.down = nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, d=32, classes=6):
        super().__init__()
        self.blocks = nn.ModuleList([Block(d) for _ in range(3)])
        self.head = nn.Linear(d, classes)

    def forward(self, x):
        x = x.to(self.head.weight.dtype)
        for block in self.blocks:
            x = block(x)
        return self.head(x).float()


centres = torch.randn(6, 32)


def batch(n=64):
    y = torch.randint(0, 6, (n,))
    return centres[y] + 0.5 * torch.randn(n, 32), y


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)

for step in range(150):
    x, y = batch()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0 or step == 149:
        print(f"step {step:3d} loss {loss.item():.4f}")
