"""Bilinear-style pooling with a square root after a ReLU (power normalisation)."""
import torch
import torch.nn.functional as F
from torch import nn


class PowerPool(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 12, 3)
        self.conv2 = nn.Conv2d(12, 16, 3)
        self.fc = nn.Linear(16, classes)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = torch.sqrt(x)              # tames large activations; units that are off stay off
        return self.fc(x.mean(dim=(2, 3)))


def textures(n):
    y = torch.randint(4, (n,))
    axis = torch.arange(12.0)
    gx, gy = torch.meshgrid(axis, axis, indexing="ij")
    waves = torch.stack([torch.sin(1.3 * gx), torch.sin(1.3 * gy), torch.sin(gx + gy), torch.sin(gx - gy)])
    return (waves[y] + 0.3 * torch.randn(n, 12, 12)).unsqueeze(1), y


torch.manual_seed(77)
net = PowerPool()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(60):
    x, y = textures(32)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 15 == 0:
        largest = max(p.grad.abs().max().item() for p in net.parameters())
        print(f"step {step:2d} loss {loss.item():.4f} largest gradient {largest:.3f}")
with torch.no_grad():
    x, y = textures(200)
    print("accuracy", (net(x).argmax(1) == y).float().mean().item())
