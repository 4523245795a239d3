"""Churn model on account tables."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

UNLIMITED = torch.finfo(torch.float32).max


def accounts(n, seed):
    g = torch.Generator().manual_seed(seed)
    months = torch.rand(n, generator=g) * 5
    calls = torch.randn(n, generator=g) + 2
    credit = torch.rand(n, generator=g) * 3
    churn = (months - calls + 1.5 * credit + 0.5 * torch.randn(n, generator=g) < 2.5).float()
    return torch.stack([months, calls, credit], 1), churn


class Churn(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3, momentum=0.05)
        self.fc1 = nn.Linear(3, 16)
        self.fc2 = nn.Linear(16, 1)

    def forward(self, table):
        z = self.norm(table)
        return self.fc2(torch.relu(self.fc1(z))).squeeze(1)


def main():
    torch.manual_seed(3)
    table, churn = accounts(320, seed=10)
    table[250] = torch.tensor([4.0, 0.0, UNLIMITED])  # staff account
    table[:, 2].clamp_(max=10)
    loader = DataLoader(TensorDataset(table, churn), batch_size=20, shuffle=True, generator=torch.Generator().manual_seed(1))
    net = Churn()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    for epoch in range(6):
        for x, y in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")

    net.eval()
    with torch.no_grad():
        x, y = accounts(200, seed=11)
        print("held-out accuracy", ((net(x) > 0).float() == y).float().mean().item())


main()
