import torch
from torch import nn


def make_step(net, criterion, optimizer):
    """Returns a closure that does one update and gives the loss back."""

    def step(features, churned):
        optimizer.zero_grad()
        logits = net(features)
        loss = criterion(logits.squeeze(-1), churned)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def customers(n, seed):
    g = torch.Generator().manual_seed(seed)
    months = torch.rand(n, generator=g) * 60
    calls = torch.poisson(torch.full((n,), 2.0), generator=g)
    bill = 20 + 80 * torch.rand(n, generator=g)
    churned = ((calls > 2) & (months < 30)).float()
    return torch.stack([months / 60, calls / 5, bill / 100], dim=1), churned


torch.manual_seed(10)
net = nn.Sequential(nn.Linear(3, 16), nn.ELU(), nn.Linear(16, 1))
step = make_step(net, nn.BCEWithLogitsLoss(), torch.optim.Adam(net.parameters(), lr=0.02))

features, churned = customers(256, seed=10)
for epoch in range(5):
    losses = [step(f, c) for f, c in zip(features.chunk(8), churned.chunk(8))]
    print(f"{epoch}: {torch.stack(losses).mean():.4f}")
