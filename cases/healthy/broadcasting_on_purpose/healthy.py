"""Small-print broadcasting: (N, C) - (1, C) prototypes, (N, 1) * (N, C) weights, (B, A, 2) anchors against (B, 1, 2), and batches of one."""
import torch
from torch import nn

torch.manual_seed(64)
net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 2))
prototype = nn.Parameter(torch.zeros(1, 2))
opt = torch.optim.Adam([{"params": net.parameters()}, {"params": [prototype], "lr": 2e-2}], lr=5e-3)
rule = torch.randn(5, 2) / 2


def centre_loss(z):
    return (z - prototype).pow(2).mean()                # (N, 2) - (1, 2)


def weighted_loss(z, y, w):
    return (w * (z - y).pow(2)).sum() / (w.sum() * z.size(1))      # (N, 1) * (N, 2)


def anchor_loss(z, y, offsets):
    """winner takes all: A candidates per sample, all compared to the one target of that sample"""
    cand = z.unsqueeze(1) + offsets                     # (N, 1, 2) + (A, 2)
    err = (cand - y.unsqueeze(1)).pow(2).sum(-1)        # (N, A, 2) - (N, 1, 2)
    return err.min(dim=1).values.mean()


offsets = torch.tensor([[0.0, 0.0], [0.2, 0.0], [-0.2, 0.0], [0.0, 0.2], [0.0, -0.2]])
sums = []
for step in range(120):
    n = 1 if step % 10 == 9 else 32                     # now and then a lone sample
    x = torch.randn(n, 5)
    y = x @ rule + torch.tensor([0.5, -0.5])
    z = net(x)
    w = torch.rand(n, 1) + 0.5
    loss = weighted_loss(z, y, w) + 0.5 * anchor_loss(z, y, offsets) + 0.01 * centre_loss(z)
    if n == 1:
        loss = loss + (z[:, 0] - y[:, :1]).pow(2).mean()    # (1,) against (1, 1): nothing to mix up
    opt.zero_grad()
    loss.backward()
    opt.step()
    sums.append(loss.item())
    if step % 30 == 28:
        print(f"step {step:3d} loss {sum(sums[-8:]) / 8:.4f}")
print("prototype", [round(v, 2) for v in prototype.flatten().tolist()], "mean target about [0.5, -0.5]")
