import torch
import torch.nn as nn


class Critic(nn.Module):
    def __init__(self, dim, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, x):
        return self.score(self.body(x)).squeeze(-1)


class WGAN:
    """Wasserstein GAN with gradient penalty (Gulrajani et al.), two-dimensional ring data."""

    n_critic = 4
    gp_weight = 10.0

    def __init__(self, latent=4, batch=64):
        self.latent, self.batch = latent, batch
        self.gen = nn.Sequential(nn.Linear(latent, 32), nn.ReLU(), nn.Linear(32, 2))
        self.critic = Critic(2)
        self.g_opt = torch.optim.Adam(self.gen.parameters(), lr=5e-4, betas=(0.5, 0.9))
        self.c_opt = torch.optim.Adam(self.critic.parameters(), lr=4e-3, betas=(0.5, 0.9))

    def real(self):
        angle = torch.rand(self.batch) * 2 * torch.pi
        ring = torch.stack([angle.cos(), angle.sin()], dim=1)
        return ring + 0.05 * torch.randn_like(ring)

    def fake(self):
        return self.gen(torch.randn(self.batch, self.latent))

    def gradient_penalty(self, real, fake):
        mix = torch.rand(len(real), 1)
        x = (mix * real + (1 - mix) * fake).requires_grad_(True)
        (grad,) = torch.autograd.grad(self.critic(x).sum(), x, create_graph=True)
        norm = (grad.square().sum(1) + 1e-12).sqrt()
        return (norm - 1).square().mean()

    def critic_step(self):
        real = self.real()
        with torch.no_grad():
            fake = self.fake()
        gap = self.critic(fake).mean() - self.critic(real).mean()
        loss = gap + self.gp_weight * self.gradient_penalty(real, fake)
        self.c_opt.zero_grad()
        loss.backward()
        self.c_opt.step()
        return -gap.item()

    def generator_step(self):
        self.critic.requires_grad_(False)
        loss = -self.critic(self.fake()).mean()  # may well be below zero
        self.g_opt.zero_grad()
        loss.backward()
        self.g_opt.step()
        self.critic.requires_grad_(True)
        return loss.item()

    def fit(self, rounds):
        for r in range(rounds):
            for _ in range(self.n_critic):
                w = self.critic_step()
            g = self.generator_step()
            if r % 20 == 0:
                yield r, w, g


if __name__ == "__main__":
    torch.manual_seed(0)
    for r, w, g in WGAN().fit(61):
        print(f"round {r:2d}: wasserstein {w:+.3f}, generator {g:+.3f}")
