"""Classifies grains by their spectra; a saliency map of the first batch is kept as training goes on."""

import torch
from torch import nn

BANDS, KINDS = 20, 3


def spectra(count, generator):
    kind = torch.randint(0, KINDS, (count,), generator=generator)
    peak = 4.0 + 5.0 * kind.unsqueeze(1)
    curve = torch.exp(-((torch.arange(BANDS) - peak) ** 2) / 8.0)
    return curve + 0.2 * torch.randn(count, BANDS, generator=generator), kind


def saliency(model, batch):
    """How much each band matters to the winning class."""
    batch = batch.clone().requires_grad_()
    model(batch).max(dim=1).values.sum().backward()
    model.zero_grad()  # ORIGIN
    return batch.grad.abs().mean(0)


def main():
    torch.manual_seed(12)
    generator = torch.Generator().manual_seed(12)
    model = nn.Sequential(nn.Linear(BANDS, 32), nn.GELU(), nn.Linear(32, KINDS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    first, _ = spectra(16, generator)
    maps = []
    for step in range(45):
        x, kind = spectra(48, generator)
        loss = nn.functional.cross_entropy(model(x), kind)
        optimizer.zero_grad()
        loss.backward()
        maps.append(saliency(model, first))
        optimizer.step()
        if step % 15 == 14:
            print(f"{step + 1}: {loss.item():.3f}, strongest band {maps[-1].argmax().item()}")


main()
