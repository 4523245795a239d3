import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class DeepTabular(nn.Module):
    def __init__(self, width=10, depth=3, classes=3):
        super().__init__()
        self.blocks = nn.ModuleList(ResidualBlock(width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)  # ORIGIN
        return self.head(x)


def make_split(n):
    x = torch.randn(n, 10)
    radius = x[:, :4].norm(dim=1)
    y = torch.bucketize(radius + x[:, 0], torch.tensor([1.3, 2.4]))
    return x, y


torch.manual_seed(41)
x_train, y_train = make_split(512)
net = DeepTabular()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()

for epoch in range(6):
    net.train()
    epoch_loss = 0.0
    perm = torch.randperm(len(x_train))
    for start in range(0, len(perm), 64):
        rows = perm[start:start + 64]
        loss = criterion(net(x_train[rows]), y_train[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item() * len(rows)
    print(f"epoch {epoch}: loss {epoch_loss / len(x_train):.4f}")
