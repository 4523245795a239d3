# two moons, small MLP
import math
import torch
import torch.nn as nn

torch.manual_seed(0)

n = 512
t = torch.rand(n) * math.pi
y = torch.randint(0, 2, (n,))
x = torch.stack([torch.cos(t) - 0.5, torch.sin(t) - 0.25], dim=1)
x = torch.where(y[:, None] == 1, torch.tensor([0.5, 0.25]) - torch.stack([torch.cos(t), torch.sin(t)], 1), x)
x = x + 0.3 * torch.randn_like(x)

model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

for step in range(60):
    idx = torch.randint(0, n, (64,))
    logits = model(x[idx])
    loss = criterion(logits, y[idx])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step:3d}  loss {loss.item():.4f}")

with torch.no_grad():
    acc = (model(x).argmax(1) == y).float().mean().item()
print(f"accuracy {acc:.3f}")
