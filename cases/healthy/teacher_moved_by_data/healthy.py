"""Fish in sonar pings, few of them named: a teacher that follows slowly says what the rest should be."""

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import nn

CENTRES = torch.tensor([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])


def pings(count):
    kind = torch.randint(0, 3, (count,))
    two = CENTRES[kind] + 1.0 * torch.randn(count, 2)
    return torch.cat([two, two.prod(1, keepdim=True), torch.randn(count, 3)], dim=1), kind


def jittered(ping):
    return ping + 0.15 * torch.randn_like(ping)


class MeanTeacher:
    def __init__(self, student, momentum=0.95):
        self.student, self.momentum = student, momentum
        self.teacher = deepcopy(student)
        for weight in self.teacher.parameters():
            weight.requires_grad = False

    def follow(self):
        m = self.momentum
        for t, s in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            t.data = m * t.data + (1 - m) * s.data

    def loss(self, named, kind, unnamed, weight):
        known = F.cross_entropy(self.student(jittered(named)), kind)
        with torch.no_grad():
            belief = self.teacher(jittered(unnamed)).softmax(-1)
        agreed = F.mse_loss(self.student(jittered(unnamed)).softmax(-1), belief)
        return known + weight * agreed


torch.manual_seed(51)
named, kind = pings(24)
unnamed, _ = pings(800)
test, truth = pings(300)
both = MeanTeacher(nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3)))
optimizer = torch.optim.SGD(both.student.parameters(), lr=0.1, momentum=0.9)
for step in range(1, 121):
    rows = torch.randint(0, len(unnamed), (64,))
    loss = both.loss(named, kind, unnamed[rows], weight=min(1.0, step / 60))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    both.follow()
    if step % 30 == 0:
        with torch.no_grad():
            right = (both.teacher(test).argmax(1) == truth).float().mean().item()
        print(f"step {step}: loss {loss.item():.3f}, teacher right {right:.3f}")
