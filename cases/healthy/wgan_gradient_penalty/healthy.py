import torch
from torch import nn

torch.manual_seed(1)
LATENT, CRITIC_STEPS = 4, 3

generator = nn.Sequential(nn.Linear(LATENT, 32), nn.ReLU(), nn.Linear(32, 2))
critic = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))


def real_points(n):
    centre = torch.tensor([[2.0, 2.0], [-2.0, 1.0], [1.0, -2.0]])
    return centre[torch.randint(0, 3, (n,))] + 0.2 * torch.randn(n, 2)


def gradient_penalty(real, fake):
    mix = torch.rand(len(real), 1)
    point = (mix * real + (1 - mix) * fake).requires_grad_(True)
    slope, = torch.autograd.grad(critic(point).sum(), point, create_graph=True)
    return (slope.norm(dim=1) - 1).pow(2).mean()


for it in range(25):
    for _ in range(CRITIC_STEPS):
        real = real_points(64)
        fake = generator(torch.randn(64, LATENT)).detach()
        # negative of the Wasserstein estimate: below zero and falling as the critic gets better
        loss_c = critic(fake).mean() - critic(real).mean() + 5.0 * gradient_penalty(real, fake)
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
    loss_g = -critic(generator(torch.randn(64, LATENT))).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    if it % 6 == 0:
        print(f"it {it:2d} critic {loss_c.item():+.4f} generator {loss_g.item():+.4f}")
