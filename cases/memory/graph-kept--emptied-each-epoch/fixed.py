"""How far noise moves the predictions, as a mean over each epoch."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(4)
model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(24 * 128, 64)
y = x[:, :8].argmax(dim=1)
shaken = []
for epoch in range(2):
    for rows in torch.randperm(len(x)).split(128):
        out = model(x[rows])
        loss = F.cross_entropy(out, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        noisy = model(x[rows] + 0.1 * torch.randn(128, 64))
        moved = F.mse_loss(noisy, out.detach())
        shaken.append(moved.detach())
    print(f"epoch {epoch} loss {loss.item():.4f} moved {torch.stack(shaken).mean().item():.5f}")
    shaken.clear()
