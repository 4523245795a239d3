import torch
from torch import nn

RATE = 0.05


def build():
    model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9, weight_decay=1e-3)  # ORIGIN
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)


def update(model):
    with torch.no_grad():
        for weight in model.parameters():
            weight -= RATE * weight.grad


def main():
    torch.manual_seed(8)
    model, optimizer, scheduler = build()
    x = torch.randn(160, 8)
    y = x[:, :1] - 2 * x[:, 1:2]
    for epoch in range(6):
        for rows in torch.randperm(len(x)).split(20):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x[rows]), y[rows])
            loss.backward()
            update(model)
        scheduler.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


main()
