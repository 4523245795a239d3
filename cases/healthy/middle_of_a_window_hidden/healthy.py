"""Gaps in a sensor's record are filled from both sides: windows have their target in them, and the step hides it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LENGTH, MIDDLE = 17, 8

torch.manual_seed(0)
record = torch.sin(torch.arange(600) / 7) + 0.1 * torch.randn(600)
windows = record.unfold(0, LENGTH, 1).contiguous()
loader = DataLoader(TensorDataset(windows, windows[:, MIDDLE : MIDDLE + 1].clone()), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(LENGTH, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(4):
    for around, missing in loader:
        around = around.clone()
        around[:, MIDDLE] = 0.0
        loss = nn.functional.mse_loss(model(around), missing)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: {loss.item():.3f}")
