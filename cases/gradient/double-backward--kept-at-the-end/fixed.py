"""A river's level, day by day: the memory of one month is where the next one begins."""
import torch
from torch import nn

torch.manual_seed(13)
days = torch.arange(360.0)
level = (torch.sin(days / 25) + 0.1 * torch.randn(360)).reshape(12, 30, 1, 1)
cell, gauge = nn.GRUCell(1, 10), nn.Linear(10, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *gauge.parameters()], lr=0.01)
memory = torch.zeros(1, 10)
for month in level:
    error = 0.0
    river = memory
    for today, tomorrow in zip(month, month[1:]):
        river = cell(today, river)
        error = error + (gauge(river) - tomorrow).square().sum()
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
    memory = river.detach()
print(float(error))
