"""Spectral regularisation of an autoencoder: one dead feature of a batch, and svd complains of its input."""

import torch
from torch import nn


def correlations(z):
    z = z - z.mean(0)
    unit = z / z.norm(dim=0).clamp(min=1e-6)
    return unit.T @ unit


def spectral_penalty(z):
    values = torch.linalg.svdvals(correlations(z))
    return (values[0] / values.sum()).log()


def main():
    torch.manual_seed(11)
    signals = torch.randn(512, 10)
    signals[384:, 3:] = 0.0
    signals[384:, :3] = 1.0
    encoder = nn.Sequential(nn.Linear(10, 6), nn.ReLU())
    decoder = nn.Linear(6, 10)
    params = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.RMSprop(params, lr=1e-3)
    for epoch in range(2):
        for chunk in signals.split(64):
            z = encoder(chunk)
            loss = (decoder(z) - chunk).square().mean() + 0.01 * spectral_penalty(z)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} done")


main()
