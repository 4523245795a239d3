import torch
from torch import nn

torch.manual_seed(0)


def init_weights(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight)
        nn.init.zeros_(m.bias)


def two_moons(n):
    t = torch.rand(n) * 3.1416
    y = torch.randint(0, 2, (n,))
    x = torch.where(y == 0, torch.cos(t), 1 - torch.cos(t))
    v = torch.where(y == 0, torch.sin(t), 0.5 - torch.sin(t))
    pts = torch.stack([x, v], dim=1) + 0.08 * torch.randn(n, 2)
    return (pts - pts.mean(0)) / pts.std(0), y


X, Y = two_moons(600)
net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
net.apply(init_weights)
optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(8):
    for idx in torch.randperm(600).split(60):
        loss = loss_fn(net(X[idx]), Y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        full = net(X)
        print(f"epoch {epoch} loss {loss_fn(full, Y).item():.4f} acc {(full.argmax(1) == Y).float().mean().item():.3f}")
