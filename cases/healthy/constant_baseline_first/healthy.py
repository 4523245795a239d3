import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(6)


class MeanBaseline(nn.Module):
    """the number to beat: one learned constant for everybody"""

    def __init__(self, start):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(start))

    def forward(self, x):
        return self.value.expand(len(x))


class Model(nn.Module):
    """starts as the baseline (zero head) and grows from there"""

    def __init__(self, n_in, start):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU())
        self.head = nn.Linear(32, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.constant_(self.head.bias, start)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)


x = torch.randn(480, 7)
y = 1.5 + x[:, 0] - 0.6 * x[:, 1] + 0.4 * x[:, 2].abs() + 0.2 * torch.randn(480)
train, test = slice(0, 400), slice(400, 480)


def fit(model, epochs, lr):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for idx in torch.randperm(400).split(40):
            loss = F.mse_loss(model(x[train][idx]), y[train][idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    with torch.no_grad():
        return F.mse_loss(model(x[test]), y[test]).item()


baseline = fit(MeanBaseline(1.0), epochs=1, lr=0.1)
print(f"test mse of the constant {baseline:.4f}")
full = fit(Model(7, 1.5), epochs=5, lr=0.01)
print(f"test mse of the network {full:.4f} ({100 * (1 - full / baseline):.0f}% better)")
