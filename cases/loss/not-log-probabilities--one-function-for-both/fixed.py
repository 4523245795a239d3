import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(5)
HEAT = 2.0


class Small(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, inner), nn.ReLU(), nn.Linear(inner, 5))

    def forward(self, rows):
        return self.layers(rows)


def distribution(net, rows):
    return (net(rows) / HEAT).softmax(dim=-1)


def imitate(student, teacher, rows, optimizer):
    with torch.no_grad():
        wanted = distribution(teacher, rows)
    said = (student(rows) / HEAT).log_softmax(dim=-1)
    loss = F.kl_div(said, wanted, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


teacher = Small(64)
for weight in teacher.parameters():
    weight.data.mul_(3)
teacher = copy.deepcopy(teacher).eval()
student = Small(12)
optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
for epoch in range(4):
    losses = [imitate(student, teacher, torch.randn(40, 16), optimizer) for _ in range(20)]
    print(f"epoch {epoch} {sum(losses) / len(losses):.4f}")
