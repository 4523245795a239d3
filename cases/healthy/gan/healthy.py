"""Toy GAN: learn a two-humped 1-D distribution."""
import torch
from torch import nn

torch.manual_seed(7)
NZ, BS, STEPS = 4, 64, 150

G = nn.Sequential(nn.Linear(NZ, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
D = nn.Sequential(nn.Linear(1, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(BS, 1), torch.zeros(BS, 1)


def real_batch():
    side = torch.randint(0, 2, (BS, 1)) * 2.0 - 1.0
    return side * 1.5 + 0.2 * torch.randn(BS, 1)


for step in range(STEPS):
    # --- discriminator: the generator must not hear about this loss
    real = real_batch()
    fake = G(torch.randn(BS, NZ))
    loss_d = bce(D(real), ones) + bce(D(fake.detach()), zeros)
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()

    # --- generator: same fakes, judged again by the updated discriminator.
    # D collects gradients here as well; its own zero_grad above throws them away.
    loss_g = bce(D(fake), ones)
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()

    if step % 50 == 0:
        print(f"step {step:3d}  D {loss_d.item():.3f}  G {loss_g.item():.3f}")

with torch.no_grad():
    sample = G(torch.randn(512, NZ))
print(f"fake mean {sample.mean().item():+.2f}  std {sample.std().item():.2f}")
