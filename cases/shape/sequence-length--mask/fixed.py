import torch
from torch import nn, Tensor


class TinyGPT(nn.Module):
    def __init__(self, vocab: int, block: int, dim: int = 32, heads: int = 4):
        super().__init__()
        self.bos = nn.Parameter(torch.zeros(1, 1, dim))
        self.wte = nn.Embedding(vocab, dim)
        self.wpe = nn.Embedding(block + 1, dim)
        causal = torch.triu(torch.ones(block + 1, block + 1, dtype=torch.bool), diagonal=1)
        self.register_buffer("causal", causal)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, idx: Tensor) -> Tensor:
        x = torch.cat([self.bos.expand(idx.shape[0], -1, -1), self.wte(idx)], dim=1)
        x = x + self.wpe(torch.arange(x.shape[1]))
        q = self.ln1(x)
        a, _ = self.attn(q, q, q, attn_mask=self.causal, need_weights=False)
        x = x + a
        x = x + self.mlp(self.ln2(x))
        return self.lm_head(x)


def get_batch(corpus: Tensor, block: int, batch: int):
    starts = torch.randint(len(corpus) - block, (batch,))
    return torch.stack([corpus[s:s + block] for s in starts.tolist()])


if __name__ == "__main__":
    torch.manual_seed(1337)
    text = "the quick brown fox jumps over the lazy dog. " * 20
    chars = sorted(set(text))
    corpus = torch.tensor([chars.index(c) for c in text])

    gpt = TinyGPT(vocab=len(chars), block=16)
    opt = torch.optim.AdamW(gpt.parameters(), lr=3e-3)
    for it in range(20):
        idx = get_batch(corpus, block=16, batch=8)
        logits = gpt(idx)[:, :-1]
        loss = nn.functional.cross_entropy(logits.reshape(-1, len(chars)), idx.reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if it % 5 == 0:
            print(f"iter {it}: loss {loss.item():.3f}")
