import torch
from torch import nn

torch.manual_seed(11)

x = torch.linspace(-2, 2, 60).unsqueeze(1)
y = torch.sin(2 * x).squeeze(1) + 0.05 * torch.randn(60)

net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
fit = torch.optim.LBFGS(net.parameters(), max_iter=6, line_search_fn="strong_wolfe")


def closure():
    fit.zero_grad()
    loss = (net(x) - y).square().mean()  # ORIGIN
    loss.backward()
    return loss


for turn in range(5):
    print(f"turn {turn}: {fit.step(closure).item():.4f}")
