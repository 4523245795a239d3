import torch
from torch import nn


class Regressor(nn.Module):
    """float32 weights; the wide middle runs in half precision"""

    def __init__(self, n_in, width=48):
        super().__init__()
        self.inp = nn.Linear(n_in, width)
        self.mid = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        with torch.autocast("cpu", dtype=torch.float16):
            h = h + self.mid(h)
        return self.out(self.norm(h.float())).squeeze(-1)


def batch(n):
    x = torch.randn(n, 6)
    y = torch.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] - 0.3 * x[:, 3]
    return x, y


torch.manual_seed(3)
model = Regressor(6)
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
for step in range(60):
    x, y = batch(32)
    # summed over the batch, so the half-precision gradients are of order one and no loss scale is needed
    loss = 0.5 * (model(x) - y).pow(2).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 9:
        smallest = min(p.grad.abs().max().item() for p in model.parameters())
        print(f"step {step + 1} loss per sample {loss.item() / 32:.4f} smallest gradient {smallest:.2e}")
