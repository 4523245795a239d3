"""The first Wasserstein GAN: RMSprop, critic weights clamped to +-0.05 after each step, critic loss below zero."""
import torch
from torch import nn

torch.manual_seed(10)
CLAMP = 0.05
gen = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
g_opt = torch.optim.RMSprop(gen.parameters(), lr=2e-3)
c_opt = torch.optim.RMSprop(critic.parameters(), lr=2e-3)


def real(n=64):
    return torch.tensor([1.5, -1.0]) + torch.randn(n, 2) @ torch.tensor([[0.4, 0.2], [0.0, 0.3]])


with torch.no_grad():
    for p in critic.parameters():
        p.clamp_(-CLAMP, CLAMP)

for it in range(45):
    for _ in range(5):
        fake = gen(torch.randn(64, 4))                     # no detach: the generator's gradients are cleared below anyway
        c_loss = critic(fake).mean() - critic(real()).mean()
        c_opt.zero_grad()
        c_loss.backward()
        c_opt.step()
        for p in critic.parameters():
            p.data.clamp_(-CLAMP, CLAMP)
    g_loss = -critic(gen(torch.randn(64, 4))).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
    if it % 11 == 0:
        with torch.no_grad():
            off = (gen(torch.randn(500, 4)).mean(0) - torch.tensor([1.5, -1.0])).norm().item()
        print(f"{it:2d} critic {c_loss.item():+.5f} generator {g_loss.item():+.5f} distance of means {off:.3f}")
