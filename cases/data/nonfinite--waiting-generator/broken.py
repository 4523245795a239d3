"""Next-hour rainfall from radar strips, read as one long stream; there is no loader and no dataset."""

import itertools

import numpy as np
import torch
from torch import nn

STRIP = 24
FLOOR = np.float32(0.02)


def amplitude(strip):
    """Amplitudes above the noise floor."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(strip - FLOOR)  # ORIGIN


def strips(power):
    for start in range(0, len(power) - STRIP - 1):
        window = power[start : start + STRIP]
        yield {"seen": amplitude(window), "next": np.float32(power[start + STRIP] > 0.9)}


def batched(stream, size):
    while rows := list(itertools.islice(stream, size)):
        seen = np.stack([row["seen"] for row in rows])
        yield torch.from_numpy(seen), torch.tensor([row["next"] for row in rows])


def main():
    rng = np.random.default_rng(3)
    power = (0.5 + 0.4 * np.sin(np.arange(2600) / 40) + 0.2 * rng.random(2600)).astype(np.float32)
    power[2300:2310] = 0.0
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(STRIP, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step, (seen, rains) in enumerate(batched(strips(power), 4)):
        loss = nn.functional.binary_cross_entropy_with_logits(model(seen).squeeze(1), rains)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"{step:4d} {loss.item():.4f}")


if __name__ == "__main__":
    main()
