import torch
from torch import nn


class ResidualMLP(nn.Module):
    def __init__(self, in_dim, hidden):
        super().__init__()
        self.up = nn.Linear(in_dim, hidden)
        self.down = nn.Linear(hidden, hidden)
        self.shortcut = nn.Linear(in_dim, hidden)

    def forward(self, x):
        h = torch.relu(self.up(x))
        h = self.down(h)
        return torch.relu(h + self.shortcut(x))


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.stage1 = ResidualMLP(10, 24)
        self.stage2 = ResidualMLP(24, 12)
        self.readout = nn.Linear(12, 1)

    def forward(self, x):
        return self.readout(self.stage2(self.stage1(x)))


def train(device, n_steps=5):
    torch.manual_seed(6)
    net = Regressor().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    mse = nn.MSELoss()
    for _ in range(n_steps):
        x = torch.randn(16, 10).to(device)
        y = x.sum(dim=1, keepdim=True)
        opt.zero_grad()
        mse(net(x), y).backward()
        opt.step()
    return net


if __name__ == "__main__":
    net = train(torch.device("meta"))
    print(sum(p.numel() for p in net.parameters()), "parameters")
