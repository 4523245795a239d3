"""Matching networks: class probabilities are similarity-weighted sums of one-hot labels, so NLL gets the log of a softmax-weighted sum."""
import torch
import torch.nn.functional as F
from torch import nn


class Matching(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(16, 48), nn.LeakyReLU(0.1), nn.Linear(48, 24))

    def forward(self, support, support_y, query, ways):
        s = F.normalize(self.f(support), dim=-1)
        q = F.normalize(self.f(query), dim=-1)
        attention = torch.softmax(5.0 * q @ s.T, dim=-1)         # (Q, S): sums to one per query
        probs = attention @ F.one_hot(support_y, ways).float()   # (Q, ways): sums to one as well
        return probs


BANK = None


def episode(ways=5, shots=3, queries=6):
    chosen = torch.randperm(len(BANK))[:ways]
    proto = BANK[chosen]
    draw = lambda k: proto.repeat_interleave(k, 0) + 0.9 * torch.randn(ways * k, 16)
    label = lambda k: torch.arange(ways).repeat_interleave(k)
    return draw(shots), label(shots), draw(queries), label(queries)


torch.manual_seed(77)
BANK = torch.randn(40, 16) * torch.cat([torch.full((6,), 1.6), torch.full((10,), 0.2)])   # only six axes tell classes apart
net = Matching()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
running = None
for ep in range(150):
    xs, ys, xq, yq = episode()
    probs = net(xs, ys, xq, 5)
    loss = F.nll_loss(torch.log(probs.clamp_min(1e-8)), yq)
    opt.zero_grad()
    loss.backward()
    opt.step()
    running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
    if ep % 30 == 0 or ep == 149:
        acc = (probs.argmax(1) == yq).float().mean().item()
        print(f"episode {ep:3d} running nll {running:.3f} accuracy {acc:.2f}")
