"""A program that keeps the dict which `locals()` returned, and fails in the same function."""

import torch
from digest import digest
from torch import nn


def main(rate=0.1, epochs=12):
    settings = locals()
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["rate"])
    for epoch in range(settings["epochs"]):
        x = torch.randn(8, 4)
        if epoch == 9:
            x[0, 0] = float("nan")
        loss = nn.functional.mse_loss(model(x), torch.zeros(8, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        try:
            model(torch.randn(8, 5))
        except RuntimeError as error:
            print(type(error).__name__, sorted(settings))
    digest(model)


main()
