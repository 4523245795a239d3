"""Monte-Carlo dropout: at test time dropout stays on (batch norm does not) and 30 passes give a spread."""
import torch
import torch.nn as nn


def build(p=0.05):
    return nn.Sequential(
        nn.Linear(1, 64), nn.Tanh(), nn.Dropout(p),
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.SiLU(), nn.Dropout(p),
        nn.Linear(64, 1),
    )


def enable_dropout(model):
    model.eval()
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.train()


def target(x):
    return torch.sin(2 * x) + 0.3 * x


torch.manual_seed(31)
x_train = torch.rand(200, 1) * 4 - 2
y_train = target(x_train) + 0.05 * torch.randn_like(x_train)
model = build()
opt = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-5)

model.train()
for epoch in range(30):
    total = 0.0
    for rows in torch.randperm(200).split(40):
        loss = nn.functional.mse_loss(model(x_train[rows]), y_train[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() / 5
    if epoch % 10 == 9:
        print(f"epoch {epoch} mse {total:.4f}")

enable_dropout(model)
grid = torch.linspace(-4, 4, 33).unsqueeze(1)
with torch.no_grad():
    draws = torch.stack([model(grid) for _ in range(30)])
mean, std = draws.mean(0), draws.std(0)
inside = (grid.abs() <= 2).squeeze()
print(f"spread inside the data {std[inside].mean():.3f}, outside {std[~inside].mean():.3f}")
print(f"rmse inside {(mean - target(grid))[inside].square().mean().sqrt():.3f}")
