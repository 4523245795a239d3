"""Goes back to the best weights when the validation loss gets worse."""

import copy

import torch
from torch import nn


def target(x: torch.Tensor) -> torch.Tensor:
    return x.pow(2).sum(1, keepdim=True)


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    held_out = torch.randn(64, 6)
    best, kept = float("inf"), copy.deepcopy(model)
    for epoch in range(6):
        for _ in range(6):
            x = torch.randn(32, 6)
            loss = nn.functional.mse_loss(model(x), target(x))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            seen = nn.functional.mse_loss(model(held_out), target(held_out)).item()
        if seen < best and epoch != 2:
            best, kept = seen, copy.deepcopy(model)
        else:
            model = copy.deepcopy(kept)  # ORIGIN
        print(epoch, round(seen, 2))


main()
