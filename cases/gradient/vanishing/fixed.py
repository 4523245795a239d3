import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def deep_mlp(n_in, n_out, width=32, depth=15):
    layers = [nn.Linear(n_in, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.BatchNorm1d(width), nn.Tanh()]
    layers.append(nn.Linear(width, n_out))
    return nn.Sequential(*layers)


def spiral(n, classes=3):
    label = torch.randint(0, classes, (n,))
    r = torch.rand(n) * 0.9 + 0.1
    angle = 3.0 * r + 2 * torch.pi * label / classes + 0.1 * torch.randn(n)
    xy = torch.stack([r * torch.cos(angle), r * torch.sin(angle)], 1)
    return xy / xy.std(0), label


torch.manual_seed(7)
points, label = spiral(480)
loader = DataLoader(TensorDataset(points, label), batch_size=48, shuffle=True)
model = deep_mlp(2, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()

for epoch in range(6):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    first, last = model[0].weight.grad.norm().item(), model[-1].weight.grad.norm().item()
    print(f"epoch {epoch} loss {total / len(loader):.4f} grad first {first:.1e} last {last:.1e}")
