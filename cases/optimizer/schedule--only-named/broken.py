"""A small regression whose rate is to be halved every other epoch."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
for epoch in range(8):
    for _ in range(10):
        x = torch.randn(64, 10)
        loss = nn.functional.mse_loss(net(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step  # ORIGIN
    print(f"epoch {epoch} loss {loss.item():.4f}")
