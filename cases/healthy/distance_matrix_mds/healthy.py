# metric MDS with a network: the map must keep all pairwise distances of the points.
# Also a kernel two-sample (MMD) term, where all three N x N matrices are averaged to a number.
import torch

torch.manual_seed(19)


def pairwise(u, v):
    return ((u[:, None, :] - v[None, :, :]) ** 2).sum(-1)


def mmd(u, v, width=0.5):
    k = lambda p, q: torch.exp(-pairwise(p, q) / (2 * width)).mean()
    return k(u, u) + k(v, v) - 2 * k(u, v)


# points on a rolled-up strip in 3-d
def strip(n):
    t, h = torch.rand(n) * 3.0, torch.rand(n)
    x = torch.stack((t.cos(), t.sin(), h), dim=-1)
    return x, torch.stack((t, h), -1)


net = torch.nn.Sequential(torch.nn.Linear(3, 48), torch.nn.Tanh(), torch.nn.Linear(48, 2))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for i in range(100):
    x, flat = strip(48)
    y = net(x)
    want = pairwise(flat, flat)
    have = pairwise(y, y)
    stress = (have - want).square().mean() / want.square().mean()
    level = y[:, 0] - y[:, 0].mean()
    ref = flat[:, 0] - flat[:, 0].mean()
    # ranking agreement of all pairs, (N, 1) - (1, N) on purpose
    rank = ((level[:, None] - level[None]) * (ref[:, None] - ref[None]) < 0).float().mean().item()
    loss = stress + 0.1 * mmd(y - y.mean(0), flat - flat.mean(0))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 20 == 0:
        print(f"{i:3d} stress {stress.item():.4f} discordant {min(rank, 1 - rank):.3f}")
print("final stress", round(stress.item(), 4))
