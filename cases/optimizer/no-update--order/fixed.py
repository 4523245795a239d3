import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(5)


class AutoEncoder(nn.Module):
    def __init__(self, d=20, code=6):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, 32), nn.ELU(), nn.Linear(32, code))
        self.dec = nn.Sequential(nn.Linear(code, 32), nn.ELU(), nn.Linear(32, d))

    def forward(self, x):
        return self.dec(self.enc(x))


basis = torch.randn(5, 20) / 5 ** 0.5


def sample(batch):
    return torch.randn(batch, 5) @ basis + 0.05 * torch.randn(batch, 20)


ae = AutoEncoder()
opt = torch.optim.Adam(ae.parameters(), lr=5e-3)

for it in range(1, 61):
    x = sample(64)
    opt.zero_grad(set_to_none=True)
    rec = F.mse_loss(ae(x), x)
    rec.backward()
    opt.step()
    if it % 15 == 0:
        print(it, "reconstruction", "%.4f" % rec.item())
