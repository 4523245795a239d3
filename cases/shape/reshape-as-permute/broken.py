import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads = num_heads
        self.d_k = d_model // num_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def split_heads(self, x):
        batch, length, _ = x.shape
        return x.view(batch, self.num_heads, length, self.d_k)  # ORIGIN

    def forward(self, x):
        q, k, v = self.split_heads(self.w_q(x)), self.split_heads(self.w_k(x)), self.split_heads(self.w_v(x))
        scores = q @ k.transpose(-2, -1) / self.d_k ** 0.5
        context = scores.softmax(dim=-1) @ v
        context = context.transpose(1, 2).reshape(x.shape)
        return self.w_o(context)


class Tagger(nn.Module):
    """tags every token with 1 if the same token occurs elsewhere in the sentence"""

    def __init__(self, vocab=20, d_model=32, heads=4, max_len=10):
        super().__init__()
        self.tok = nn.Embedding(vocab, d_model)
        self.pos = nn.Parameter(torch.randn(max_len, d_model) * 0.1)
        self.attn = MultiHeadSelfAttention(d_model, heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 64), nn.ReLU(), nn.Linear(64, d_model))
        self.norm2 = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, 2)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[: ids.size(1)]
        x = self.norm1(x + self.attn(x))
        x = self.norm2(x + self.ff(x))
        return self.out(x)


def sentences(n):
    ids = torch.randint(0, 20, (n, 10))
    same = (ids.unsqueeze(2) == ids.unsqueeze(1)).sum(-1) > 1
    return ids, same.long()


torch.manual_seed(8)
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
for step in range(1, 101):
    ids, tags = sentences(48)
    logits = model(ids)
    loss = F.cross_entropy(logits.transpose(1, 2), tags)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"[{step}] loss {loss.item():.4f} acc {(logits.argmax(-1) == tags).float().mean().item():.3f}")
