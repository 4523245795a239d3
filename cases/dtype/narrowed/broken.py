"""Next-token model over a packed token stream."""
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F


@dataclass(frozen=True)
class HParams:
    vocab_size: int = 40_000
    dim: int = 8
    context: int = 12
    batch_size: int = 16
    steps: int = 25


def tokenize_corpus(hp, n_docs=60):
    """Stand-in for the real BPE: frequent ids are small, rare ones large."""
    g = torch.Generator().manual_seed(1)
    docs = []
    for _ in range(n_docs):
        u = torch.rand(120, generator=g)
        docs.append((hp.vocab_size * u ** 60).long())
    return docs


def pack(docs):
    # keeps the whole corpus in RAM at 2 bytes per token
    stream = torch.cat(docs).to(torch.int16)  # ORIGIN
    return stream


def sample_batch(stream, hp, g):
    starts = torch.randint(len(stream) - hp.context - 1, (hp.batch_size,), generator=g)
    chunk = torch.stack([stream[s:s + hp.context + 1] for s in starts.tolist()]).long()
    return chunk[:, :-1], chunk[:, -1]


class Bigramish(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.embed = nn.Embedding(hp.vocab_size, hp.dim)
        self.mix = nn.Linear(hp.dim, hp.dim)
        self.unembed = nn.Linear(hp.dim, hp.vocab_size, bias=False)

    def forward(self, ids):
        h = self.embed(ids).mean(dim=1)
        return self.unembed(torch.tanh(self.mix(h)))


hp = HParams()
torch.manual_seed(0)
stream = pack(tokenize_corpus(hp))
model = Bigramish(hp)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
g = torch.Generator().manual_seed(9)
for step in range(hp.steps):
    ids, nxt = sample_batch(stream, hp, g)
    loss = F.cross_entropy(model(ids), nxt)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{step:02d} {loss.item():.3f}")
