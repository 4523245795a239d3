import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

VOCAB, CONTEXT, DIM = 12, 10, 32


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, mask):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / DIM ** 0.5
        attn = scores.masked_fill(mask, float("-inf")).softmax(-1)
        entropy = -torch.special.xlogy(attn, attn.clamp_min(1e-9)).sum(-1).mean()
        x = x + attn @ v
        return x + self.ff(x), entropy


class TinyLM(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Parameter(0.02 * torch.randn(CONTEXT, DIM))
        self.blocks = nn.ModuleList(Block(DIM) for _ in range(depth))
        self.out = nn.Linear(DIM, VOCAB)
        self.register_buffer("mask", torch.ones(CONTEXT, CONTEXT).triu(1).bool())

    def forward(self, ids):
        x, spread = self.tok(ids) + self.pos, 0.0
        for block in self.blocks:
            x, entropy = checkpoint(block, x, self.mask, use_reentrant=False)
            spread = spread + entropy
        return self.out(x), spread / len(self.blocks)


def counting(n):
    start = torch.randint(VOCAB, (n, 1))
    stride = torch.randint(1, 4, (n, 1))
    return (start + stride * torch.arange(CONTEXT + 1)) % VOCAB


torch.manual_seed(44)
lm = TinyLM()
opt = torch.optim.AdamW(lm.parameters(), lr=3e-3)
for step in range(50):
    seq = counting(24)
    logits, entropy = lm(seq[:, :-1])
    nll = F.cross_entropy(logits.flatten(0, 1), seq[:, 1:].flatten())
    loss = nll - 0.005 * entropy
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 12 == 0:
        print(f"step {step} nll {nll.item():.3f} attention entropy {entropy.item():.3f}")
