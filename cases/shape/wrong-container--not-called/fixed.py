import torch
from torch import nn

torch.manual_seed(16)
tide, level = torch.randn(48, 6), torch.randn(48)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for _epoch in range(3):
    for rows in torch.randperm(48).split(12):
        optimizer.zero_grad()
        loss = ((model(tide[rows]) - level[rows]) ** 2).mean()
        loss.backward()
        optimizer.step()
