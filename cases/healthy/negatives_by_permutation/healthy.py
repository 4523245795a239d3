"""Who buys what: each customer with a product they bought, and with one that somebody else did."""
import torch
from torch import nn

torch.manual_seed(6)
taste = torch.randn(240, 8)
customers = taste + 0.3 * torch.randn(240, 8)
products = taste + 0.3 * torch.randn(240, 8)


class Match(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(8, 16), nn.Linear(8, 16)

    def forward(self, a, b):
        return (self.left(a) * self.right(b)).sum(1)


model = Match()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
bce = nn.BCEWithLogitsLoss()
for epoch in range(5):
    order = torch.randperm(240)
    strangers = products[torch.randperm(240)]
    total = 0.0
    for c, p, s in zip(customers[order].split(30), products[order].split(30), strangers.split(30)):
        scores = torch.cat([model(c, p), model(c, s)])
        bought = torch.cat([torch.ones(len(c)), torch.zeros(len(c))])
        loss = bce(scores, bought)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch}: {total:.3f}")
