import torch
import torch.nn.functional as F
from torch import nn


class Denoiser(nn.Module):
    """predicts the noise that was added to a small grey picture"""

    def __init__(self, ch=8):
        super().__init__()
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(ch, ch, 3, padding=1) for _ in range(2))
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x):
        h = F.silu(self.inp(x))
        for conv in self.body:
            h = h + F.silu(conv(h))
        return self.out(h)


def pictures(n, size=24):
    t = torch.linspace(0, 6.28, size)
    f = 1 + torch.randint(0, 3, (n, 1, 1))
    p = 6.28 * torch.rand(n, 1, 1)
    return torch.sin(f * t[None, :, None] + p) * torch.cos(f * t[None, None, :]).expand(n, size, size)


# noise levels as in the schedule of the paper; clean steps weigh least
SIGMAS = torch.tensor([0.3, 0.5, 0.7])
WEIGHTS = SIGMAS ** 2 * 2e-5


def train_step(net, opt, batch=16):
    clean = pictures(batch).unsqueeze(1)
    level = torch.randint(0, 3, (batch,))
    noise = torch.randn_like(clean)
    noisy = clean + SIGMAS[level].view(-1, 1, 1, 1) * noise
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):  # ORIGIN
        guess = net(noisy)
    err = (guess.float() - noise).pow(2).mean(dim=(1, 2, 3))
    loss = (WEIGHTS[level] * err).mean()
    loss.backward()
    opt.step()
    return err.mean().item()


torch.manual_seed(5)
net = Denoiser()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(30):
    mse = train_step(net, opt)
    if step % 5 == 4:
        print(f"{step + 1:3d} noise mse {mse:.4f}")
