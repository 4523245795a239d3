import torch
import torch.nn as nn
import torch.nn.functional as F


class Gate(nn.Module):
    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_hidden, n_in))
        self.bias = nn.Parameter(torch.zeros(n_hidden))
        nn.init.normal_(self.weight, std=12.0)  # ORIGIN

    def forward(self, x):
        return torch.sigmoid(F.linear(x, self.weight, self.bias))


class GatedRegressor(nn.Module):
    def __init__(self, n_in=8, n_hidden=24):
        super().__init__()
        self.gate = Gate(n_in, n_hidden)
        self.value = nn.Linear(n_in, n_hidden)
        self.out = nn.Linear(n_hidden, 1)

    def forward(self, x):
        return self.out(self.gate(x) * self.value(x))


torch.manual_seed(19)
x = torch.randn(640, 8)
y = (torch.sigmoid(x[:, :1] + x[:, 1:2]) * x[:, 2:3]) + 0.2 * x[:, 3:4]
model = GatedRegressor()
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(5):
    for xb, yb in zip(x.split(64), y.split(64)):
        loss = F.mse_loss(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("epoch", epoch, "mse", format(loss.item(), ".4f"))
