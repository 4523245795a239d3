# lr is exactly 0 in the first step and tiny in the next ones; the transformer needs that.
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(88)
D, T, V = 24, 6, 10


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, D)
        self.pos = nn.Parameter(0.5 * torch.randn(1, T, D))
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 4, 48, dropout=0.0, batch_first=True), 1, enable_nested_tensor=False)
        self.out = nn.Linear(D, V)

    def forward(self, ids):
        return self.out(self.enc(self.emb(ids) + self.pos))


def sequences(n):
    ids = torch.randint(0, V, (n, T))
    return ids, ids.flip(1)              # reverse the sequence: every position needs its mirror


def set_lr(opt, step, total=120, warm=20, peak=1e-2):
    factor = step / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))
    for g in opt.param_groups:
        g["lr"] = peak * factor
    return peak * factor


net = Tiny()
opt = torch.optim.Adam(net.parameters(), lr=0.0, betas=(0.9, 0.98))
for step in range(120):
    lr = set_lr(opt, step)
    x, y = sequences(32)
    loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step in (0, 1, 20, 60, 90, 119):
        print(f"step {step:3d} lr {lr:.2e} loss {loss.item():.3f}")
