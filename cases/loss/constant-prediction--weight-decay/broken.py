from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


@dataclass
class Config:
    batch_size: int = 32
    epochs: int = 4
    lr: float = 0.05
    weight_decay: float = 4.0
    hidden: int = 48


def sensor_data(n=640):
    """8 standardised sensor channels -> wear of the part (standardised)"""
    x = torch.randn(n, 8)
    wear = torch.tanh(x[:, 0] + x[:, 1]) + 0.7 * x[:, 2] - 0.5 * x[:, 5] + 0.1 * torch.randn(n)
    return x, ((wear - wear.mean()) / wear.std()).unsqueeze(1)


def evaluate(net, loader, criterion):
    net.eval()
    with torch.no_grad():
        total = sum(criterion(net(x), y).item() * len(x) for x, y in loader)
    net.train()
    return total / len(loader.dataset)


def main(cfg=Config()):
    torch.manual_seed(11)
    train_set, val_set = random_split(TensorDataset(*sensor_data()), [512, 128])
    train_loader = DataLoader(train_set, batch_size=cfg.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=128)

    net = nn.Sequential(nn.Linear(8, cfg.hidden), nn.Tanh(), nn.Linear(cfg.hidden, 1))
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=cfg.lr, momentum=0.5, weight_decay=cfg.weight_decay)

    for epoch in range(cfg.epochs):
        running = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)  # ORIGIN
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(f"epoch {epoch}: train {running / len(train_loader):.4f} val {evaluate(net, val_loader, criterion):.4f}")


if __name__ == "__main__":
    main()
