"""Predict tomorrow's load of a small power grid from the last 24 readings."""
import math

import torch
from torch import nn


def load_curve(hours):
    t = torch.arange(hours, dtype=torch.float32)
    return torch.sin(2 * math.pi * t / 24) + 0.3 * torch.sin(2 * math.pi * t / 168) + 0.05 * torch.randn(hours)


def windows(curve, size, batch):
    starts = torch.randperm(len(curve) - size - 1)
    for chunk in starts.split(batch):
        yield torch.stack([curve[s:s + size] for s in chunk]), torch.stack([curve[s + size] for s in chunk])


def fit(model, batches, held_out, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    x_test, y_test = held_out
    for epoch in range(epochs):
        model.train()
        count = 0
        for x, y in batches:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x).squeeze(-1), y)
            loss.backward()
            optimizer.step()
            count += 1
        model.eval()
        with torch.no_grad():
            error = nn.functional.mse_loss(model(x_test).squeeze(-1), y_test).item()
        print(f"epoch {epoch}: {count} batches, test mse {error:.4f}")


def main():
    torch.manual_seed(20)
    curve = load_curve(700)
    train, test = curve[:600], curve[600:]
    model = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 1))
    held_out = next(windows(test, 24, len(test)))
    stream = list(windows(train, 24, 32))
    fit(model, stream, held_out, epochs=6)


if __name__ == "__main__":
    main()
