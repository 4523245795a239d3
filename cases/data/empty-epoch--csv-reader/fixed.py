import csv
import random
import tempfile
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F


def write_orders(path, n=480):
    r = random.Random(6)
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        for _ in range(n):
            distance, weight, rush = r.uniform(0, 2), r.uniform(0, 2), r.randint(0, 1)
            out.writerow([f"{distance:.3f}", f"{weight:.3f}", rush, int(distance + 0.7 * weight - 0.8 * rush > 1.2)])


def batches(rows, size):
    while chunk := list(islice(rows, size)):
        table = torch.tensor([[float(v) for v in row] for row in chunk])
        yield table[:, :3] - 1.0, table[:, 3]


torch.manual_seed(6)
model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
opt = torch.optim.RMSprop(model.parameters(), lr=2e-3)
schedule = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.8)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "orders.csv"
    write_orders(path)
    with open(path, newline="") as f:
        rows = list(csv.reader(f))
        for epoch in range(5):
            late = seen = 0
            for number, (x, y) in enumerate(batches(iter(rows), 24)):
                logit = model(x).squeeze(1)
                loss = F.binary_cross_entropy_with_logits(logit, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                late += ((logit > 0) == (y > 0.5)).sum().item()
                seen += len(y)
            schedule.step()
            print(f"epoch {epoch}: {late / max(seen, 1):.3f} of {seen} orders right, lr {schedule.get_last_lr()[0]:.5f}")
