import torch
from torch import nn

torch.manual_seed(23)
LATENT = 4

G = nn.Sequential(nn.Linear(LATENT, 16), nn.ReLU(), nn.Linear(16, 1))
D = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
bce = nn.BCEWithLogitsLoss()
optG = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.99))
optD = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.99))


def real_batch(n):
    return torch.randn(n, 1) * 0.5 + 3.0


def train_iteration(n=32):
    ones, zeros = torch.ones(n, 1), torch.zeros(n, 1)
    real = real_batch(n)
    fake = G(torch.randn(n, LATENT))

    d_loss = bce(D(real), ones) + bce(D(fake.detach()), zeros)

    # discriminator
    optD.zero_grad()
    d_loss.backward()
    optD.step()

    # generator
    g_loss = bce(D(fake), ones)
    optG.zero_grad()
    g_loss.backward()
    optG.step()
    return d_loss.item(), g_loss.item()


for it in range(30):
    d, g = train_iteration()
    if it % 10 == 0:
        print(f"it {it:3d}  D {d:.3f}  G {g:.3f}")
with torch.no_grad():
    print("mean of generated samples:", G(torch.randn(500, LATENT)).mean().item())
