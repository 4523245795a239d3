"""1-D GAN: match a mixture of two Gaussians."""
import torch
from torch import nn

torch.manual_seed(2)
LATENT = 4

generator = nn.Sequential(nn.Linear(LATENT, 16), nn.ReLU(), nn.Linear(16, 1))
discriminator = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=5e-2)
opt_d = torch.optim.Adam(discriminator.parameters(), lr=5e-3)
bce = nn.BCEWithLogitsLoss()


def real_batch(n):
    side = torch.randint(2, (n, 1)) * 2.0 - 1.0
    return 4 * side + 0.3 * torch.randn(n, 1)


def discriminator_step(n=32):
    real, fake = real_batch(n), generator(torch.randn(n, LATENT)).detach()
    loss = bce(discriminator(real), torch.ones(n, 1)) + bce(discriminator(fake), torch.zeros(n, 1))
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()
    return loss.item()


def generator_step(n=32):
    verdict = discriminator(generator(torch.randn(n, LATENT)))
    loss = nn.functional.logsigmoid(-verdict).mean()
    opt_g.zero_grad()
    loss.backward()
    opt_g.step()
    return loss.item()


for it in range(60):
    d_loss = discriminator_step()
    for _ in range(3):
        g_loss = generator_step()
    if it % 6 == 0:
        print(f"it {it:2d}  D {d_loss:.3f}  G {g_loss:.3f}")
