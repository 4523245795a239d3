from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention


@dataclass(frozen=True)
class Cfg:
    vocab: int = 14
    dim: int = 32
    heads: int = 4
    prefix: int = 6
    total: int = 12
    steps: int = 91
    lr: float = 5e-3


def prefix_mask(total: int, prefix: int) -> torch.Tensor:
    """True = may look. The prompt sees all of itself; the continuation is causal."""
    mask = torch.ones(total, total, dtype=torch.bool).tril()
    mask[:prefix, :prefix] = True
    return mask


class Block(nn.Module):
    def __init__(self, c: Cfg):
        super().__init__()
        self.c = c
        self.n1, self.n2 = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.qkv, self.proj = nn.Linear(c.dim, 3 * c.dim), nn.Linear(c.dim, c.dim)
        self.mlp = nn.Sequential(nn.Linear(c.dim, 2 * c.dim), nn.GELU(), nn.Linear(2 * c.dim, c.dim))

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.c.heads, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        y = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class PrefixLM(nn.Module):
    def __init__(self, c: Cfg):
        super().__init__()
        self.c = c
        self.tok, self.pos = nn.Embedding(c.vocab, c.dim), nn.Parameter(torch.randn(c.total, c.dim) * 0.2)
        self.blocks = nn.ModuleList(Block(c) for _ in range(2))
        self.head = nn.Linear(c.dim, c.vocab)
        self.register_buffer("mask", prefix_mask(c.total - 1, c.prefix))

    def forward(self, ids):
        x = self.tok(ids) + self.pos[: ids.size(1)]
        for blk in self.blocks:
            x = blk(x, self.mask[: ids.size(1), : ids.size(1)])
        return self.head(x)


def batch(c: Cfg, n: int):
    prompt = torch.randint(0, c.vocab, (n, c.prefix))
    return torch.cat([prompt, prompt.sort(1).values], dim=1)       # continuation: the sorted prompt


c = Cfg()
torch.manual_seed(20)
model = PrefixLM(c)
opt = torch.optim.Adam(model.parameters(), lr=c.lr)
for step in range(c.steps):
    seq = batch(c, 32)
    logits = model(seq[:, :-1])
    # the prompt is given, so only the continuation is scored
    loss = cross_entropy(logits[:, c.prefix - 1:].flatten(0, 1), seq[:, c.prefix:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0 or step == c.steps - 1:
        print(f"step {step:3d} loss {loss.item():.3f}")
