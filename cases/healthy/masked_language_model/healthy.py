"""BERT-style pretraining: no shift, no causal mask; labels are the very inputs, and only masked places count."""
import torch
import torch.nn.functional as F
from torch import nn

VOCAB, MASK, LENGTH = 16, 15, 12


def sentences(n):
    """arithmetic progressions modulo 15, so a gap can be filled from both sides"""
    start, stride = torch.randint(0, 15, (n, 1)), torch.randint(1, 4, (n, 1))
    return (start + stride * torch.arange(LENGTH)) % 15


def corrupt(ids, p=0.2):
    labels = ids.clone()
    inputs = ids.clone()
    chosen = torch.rand(ids.shape) < p
    labels[~chosen] = -100
    roll = torch.rand(ids.shape)
    inputs[chosen & (roll < 0.8)] = MASK
    swap = chosen & (roll >= 0.8) & (roll < 0.9)
    inputs[swap] = torch.randint(0, 15, (int(swap.sum()),))
    return inputs, labels                       # 10 % of the chosen ones stay as they are


class Bert(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, d), nn.Embedding(LENGTH, d)
        for e in (self.tok, self.pos):
            nn.init.normal_(e.weight, std=0.3)
        self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d))
        self.conv = nn.Conv1d(d, d, 3, padding=1)
        self.head = nn.Linear(d, VOCAB)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
        n = self.ln1(x)
        x = x + self.attn(n, n, n, need_weights=False)[0]
        return self.head(x + self.ff(self.ln2(x)))


torch.manual_seed(123)
net = Bert()
opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
for step in range(91):
    inputs, labels = corrupt(sentences(40))
    loss = F.cross_entropy(net(inputs).view(-1, VOCAB), labels.view(-1), ignore_index=-100)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(f"step {step:3d} masked loss {loss.item():.3f}")
net.eval()
with torch.no_grad():
    ids = sentences(200)
    hidden = ids.clone()
    hidden[:, 5] = MASK
    print("gap filled right: %.2f" % (net(hidden)[:, 5].argmax(-1) == ids[:, 5]).float().mean())
