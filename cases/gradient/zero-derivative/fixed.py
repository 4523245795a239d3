import torch
import torch.nn as nn
import torch.nn.functional as F


class BinaryCode(nn.Module):
    """Autoencoder with a 12 bit code."""

    def __init__(self, dim=20, bits=12):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(dim, 40), nn.Tanh(), nn.Linear(40, bits))
        self.dec = nn.Sequential(nn.Linear(bits, 40), nn.Tanh(), nn.Linear(40, dim))

    def forward(self, x):
        p = torch.sigmoid(self.enc(x))
        code = p + (torch.round(p) - p).detach()
        return self.dec(code), code


def closure_for(model, opt):
    def step(batch):
        opt.zero_grad()
        recon, code = model(batch)
        loss = F.mse_loss(recon, batch)
        loss.backward()
        opt.step()
        return loss.item(), code.mean().item()
    return step


torch.manual_seed(23)
basis = torch.randn(4, 20) / 2
signals = torch.randn(512, 4) @ basis + 0.05 * torch.randn(512, 20)
model = BinaryCode()
step = closure_for(model, torch.optim.Adam(model.parameters(), lr=5e-3))
for epoch in range(8):
    stats = [step(signals[i]) for i in torch.randperm(512).split(64)]
    loss = sum(s[0] for s in stats) / len(stats)
    print(f"epoch {epoch} recon {loss:.4f} bits on {stats[-1][1]:.2f}")
