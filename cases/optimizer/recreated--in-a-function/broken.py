import torch
from torch import nn

SETTINGS = {"epochs": 6, "batch": 25, "rate": 3e-3}


def adam_for(model, rate):
    return torch.optim.Adam(model.parameters(), lr=rate)


def train_epoch(model, x, y, settings):
    optimizer = adam_for(model, settings["rate"])
    for rows in torch.randperm(len(x)).split(settings["batch"]):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
    x = torch.randn(200, 5)
    y = x[:, :1] * x[:, 1:2]
    for epoch in range(SETTINGS["epochs"]):
        loss = train_epoch(model, x, y, SETTINGS)  # ORIGIN
        print(f"epoch {epoch}: {loss:.4f}")


main()
