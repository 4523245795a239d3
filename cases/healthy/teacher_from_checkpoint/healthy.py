"""A small network learns from a large one, which is read from the checkpoint of its own training."""

import io

import torch
from torch import nn
from torch.nn import functional as F


def network(width):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))


def train_teacher(rows, kinds, file):
    teacher = network(64)
    optimizer = torch.optim.Adam(teacher.parameters(), lr=1e-3)
    for _ in range(60):
        loss = F.cross_entropy(teacher(rows), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save({"model": teacher.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 60}, file)


def read_teacher(file):
    file.seek(0)
    teacher = network(64)
    teacher.load_state_dict(torch.load(file)["model"])
    return teacher.eval().requires_grad_(False)


torch.manual_seed(0)
rows = torch.randn(256, 8)
kinds = (rows[:, 0] > 0).long() + (rows[:, 1] > 0).long()
disk = io.BytesIO()
train_teacher(rows, kinds, disk)
teacher = read_teacher(disk)
student = network(16)
optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
for step in range(80):
    some = rows[torch.randint(0, len(rows), (32,))]
    with torch.no_grad():
        soft = teacher(some).softmax(1)
    loss = F.kl_div(student(some).log_softmax(1), soft, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
