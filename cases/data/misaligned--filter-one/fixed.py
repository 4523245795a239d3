"""Heart-rate recordings from a clinic export; rows with a lost electrode are dropped."""
import io
import csv

import numpy as np
import torch
import torch.nn.functional as F


def export(n=500, seed=8):
    gen = np.random.default_rng(seed)
    buf = io.StringIO()
    w = csv.writer(buf)
    for _ in range(n):
        ill = int(gen.random() < 0.5)
        values = [f"{v:.3f}" for v in gen.normal(0.9 if ill else -0.9, 1.0, size=6)]
        if gen.random() < 0.06:
            values[gen.integers(6)] = "?"
        w.writerow(values + [ill])
    buf.seek(0)
    return buf


def load(stream):
    readings, diagnoses = [], []
    for row in csv.reader(stream):
        readings.append(row[:-1])
        diagnoses.append(int(row[-1]))
    kept = [(r, d) for r, d in zip(readings, diagnoses) if "?" not in r]
    return [(torch.tensor([float(v) for v in r]), d) for r, d in kept]


def batches(pairs, size, gen):
    order = torch.randperm(len(pairs), generator=gen).tolist()
    for k in range(0, len(order) - size + 1, size):
        chunk = [pairs[j] for j in order[k:k + size]]
        yield torch.stack([x for x, _ in chunk]), torch.tensor([float(d) for _, d in chunk])


def train(pairs, epochs=5):
    gen = torch.Generator().manual_seed(5)
    torch.manual_seed(5)
    w1 = (torch.randn(6, 12) * 0.4).requires_grad_()
    b1 = torch.zeros(12, requires_grad=True)
    w2 = (torch.randn(12) * 0.3).requires_grad_()
    opt = torch.optim.SGD([w1, b1, w2], lr=0.3)
    for epoch in range(epochs):
        right = total = 0
        for x, d in batches(pairs, 32, gen):
            logit = torch.tanh(x @ w1 + b1) @ w2
            loss = F.binary_cross_entropy_with_logits(logit, d)
            opt.zero_grad()
            loss.backward()
            opt.step()
            right += ((logit > 0) == (d > 0.5)).sum().item()
            total += len(d)
        print(f"epoch {epoch} loss {loss.item():.3f} acc {right / total:.3f}")


train(load(export()))
