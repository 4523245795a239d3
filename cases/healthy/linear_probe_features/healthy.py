import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class DenoisingAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(30, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 12))
        self.dec = nn.Sequential(nn.ReLU(), nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 30))

    def forward(self, x):
        return self.dec(self.enc(x))


means = torch.randn(6, 30)


def get(n):
    y = torch.randint(6, (n,))
    return means[y] + 1.2 * torch.randn(n, 30), y


# ---- self-supervised part
ae = DenoisingAE()
opt = torch.optim.Adam(ae.parameters(), lr=3e-3)
for i in range(80):
    x, _ = get(64)
    loss = F.mse_loss(ae(x + 0.3 * torch.randn_like(x)), x)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if i % 40 == 0:
        print("ae", i, round(loss.item(), 4))
print("ae last", round(loss.item(), 4))

# ---- linear probe: requires_grad was never switched off, the features are simply computed without a graph in eval mode
ae.eval()
probe = nn.Linear(12, 6)
opt_probe = torch.optim.SGD(probe.parameters(), lr=0.2, momentum=0.9)
for i in range(60):
    x, y = get(64)
    with torch.no_grad():
        z = F.layer_norm(ae.enc(x), (12,))
    loss = F.cross_entropy(probe(z), y)
    opt_probe.zero_grad(set_to_none=True)
    loss.backward()
    opt_probe.step()
    if i % 20 == 0:
        print("probe", i, round(loss.item(), 4))

with torch.inference_mode():
    x, y = get(500)
    acc = (probe(F.layer_norm(ae.enc(x), (12,))).argmax(-1) == y).float().mean().item()
print("probe accuracy", round(acc, 3))
