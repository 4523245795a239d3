"""Align picture and caption features in one space (CLIP style), towers frozen, projections trained."""
import torch
import torch.nn.functional as F
from torch import nn

EPS = torch.finfo(torch.float32).tiny


class Tower(nn.Module):
    def __init__(self, d_in, d_out=16, zero_init=False):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(d_in, 32), nn.GELU(), nn.LayerNorm(32))
        self.proj = nn.Linear(32, d_out)
        if zero_init:
            nn.init.zeros_(self.proj.weight)
            nn.init.zeros_(self.proj.bias)

    def forward(self, feats):
        z = self.proj(self.mlp(feats))
        return F.normalize(z, dim=-1, eps=EPS)  # ORIGIN


def pairs(n, g):
    topic = torch.randn(n, 6, generator=g)
    picture = torch.cat([topic, torch.randn(n, 6, generator=g)], 1)
    caption = torch.cat([topic.flip(1), topic.square()], 1) + 0.1 * torch.randn(n, 12, generator=g)
    return picture, caption


def clip_loss(zi, zt, temperature):
    logits = zi @ zt.T / temperature
    target = torch.arange(len(logits))
    rows = F.cross_entropy(logits, target, reduction="sum")
    columns = F.cross_entropy(logits.T, target, reduction="sum")
    return 0.5 * (rows + columns)


torch.manual_seed(19)
g = torch.Generator().manual_seed(77)
image_tower, text_tower = Tower(12), Tower(12, zero_init=True)
opt_i = torch.optim.AdamW(image_tower.parameters(), lr=2e-3)
opt_t = torch.optim.AdamW(text_tower.parameters(), lr=4e-3, weight_decay=0.0)

for step in range(60):
    picture, caption = pairs(32, g)
    loss = clip_loss(image_tower(picture), text_tower(caption), temperature=0.02)
    for o in (opt_i, opt_t):
        o.zero_grad()
    loss.backward()
    for o in (opt_i, opt_t):
        o.step()
    if step % 15 == 0:
        print(f"step {step}: contrastive loss {loss.item() / 32:.4f}")
