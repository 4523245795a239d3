from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

from corpus import sample_chain


@dataclass
class GPTConfig:
    vocab_size: int = 12
    block_size: int = 24
    n_embd: int = 32
    n_head: int = 4


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n_head = c.n_head
        self.ln1, self.ln2 = nn.LayerNorm(c.n_embd), nn.LayerNorm(c.n_embd)
        self.qkv = nn.Linear(c.n_embd, 3 * c.n_embd)
        self.proj = nn.Linear(c.n_embd, c.n_embd)
        self.mlp = nn.Sequential(nn.Linear(c.n_embd, 64), nn.GELU(), nn.Linear(64, c.n_embd))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(B, T, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
        att = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(att.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln2(x))


class TinyGPT(nn.Module):
    """Same interface as the big libraries: give it labels and it returns the loss."""

    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c.vocab_size, c.n_embd)
        self.pos = nn.Embedding(c.block_size, c.n_embd)
        self.block = Block(c)
        self.ln_f = nn.LayerNorm(c.n_embd)
        self.lm_head = nn.Linear(c.n_embd, c.vocab_size, bias=False)

    def forward(self, input_ids, labels=None):
        where = torch.arange(input_ids.size(1))
        logits = self.lm_head(self.ln_f(self.block(self.tok(input_ids) + self.pos(where))))
        loss = None
        if labels is not None:
            # position t predicts token t + 1
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return loss, logits


def collate(rows):
    ids = torch.stack(rows)
    input_ids = ids[:, :-1]
    labels = ids[:, 1:]  # ORIGIN
    return {"input_ids": input_ids, "labels": labels}


def main():
    torch.manual_seed(1)
    config = GPTConfig()
    ids = sample_chain(240, config.block_size + 1, config.vocab_size, torch.Generator().manual_seed(1))
    loader = DataLoader(list(ids), batch_size=24, shuffle=True, collate_fn=collate)
    model = TinyGPT(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(5):
        total = 0.0
        for batch in loader:
            loss, _ = model(**batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
