"""Sequence labelling of gait phases. Before training, the step is rehearsed twice on tensors that nobody has filled: on the meta device for
its size, and on the model itself for its time. No update uses either of them."""

import copy
import time

import torch
from torch import nn

PHASES, SENSORS, LENGTH = 4, 6, 24


class GaitTagger(nn.Module):
    def __init__(self, width: int = 24):
        super().__init__()
        self.conv = nn.Conv1d(SENSORS, width, 5, padding=2)
        self.register_buffer("scale", torch.full((SENSORS, 1), 0.5))
        self.mix = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, PHASES)

    def forward(self, x):
        h = torch.relu(self.conv(x * self.scale)).transpose(1, 2)
        return self.out(self.mix(h)[0])


def bytes_of_a_step(model, batch):
    ghost = copy.deepcopy(model).to("meta")
    x = torch.empty(batch, SENSORS, LENGTH, device="meta")
    out = ghost(x)
    out.square().mean().backward()
    return sum(p.grad.numel() * p.grad.element_size() for p in ghost.parameters()) + out.numel() * 4


def seconds_of_a_step(model, optimizer, batch):
    began = time.perf_counter()
    model(torch.empty(batch, SENSORS, LENGTH)).mean().backward()
    optimizer.zero_grad(set_to_none=True)
    return time.perf_counter() - began


def walks(count, gen):
    start = torch.randint(0, PHASES, (count, 1), generator=gen)
    phase = (start + torch.arange(LENGTH) // 3) % PHASES
    signal = torch.nn.functional.one_hot(phase, PHASES).float().transpose(1, 2)
    x = torch.cat([signal, signal[:, :2].flip(1)], 1) + 0.3 * torch.randn(count, SENSORS, LENGTH, generator=gen)
    return x, phase


def main():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(3)
    model = GaitTagger()
    print(f"a step of 512 needs {bytes_of_a_step(model, 512) / 1e3:.0f} kB")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    slow = seconds_of_a_step(model, optimizer, 32) > 60
    for step in range(20 if slow else 60):
        x, phase = walks(32, gen)
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), phase.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 19:
            print(f"{step + 1}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
