"""Sequence-to-sequence reversal with a GRU; decoding by beam search with -inf for dead beams."""
import torch
import torch.nn.functional as F
from torch import nn

BOS, EOS, VOCAB = 0, 1, 8
NEG_INF = float("-inf")


class Seq2Seq(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.enc = nn.GRU(dim, dim, batch_first=True)
        self.dec = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, src, prefix):
        _, h = self.enc(self.emb(src))
        y, _ = self.dec(self.emb(prefix), h)
        return self.out(y)


def pairs(n, length=4):
    src = torch.randint(2, VOCAB, (n, length))
    bos, eos = torch.full((n, 1), BOS), torch.full((n, 1), EOS)
    return src, torch.cat([bos, src.flip(1)], 1), torch.cat([src.flip(1), eos], 1)


@torch.no_grad()
def beam_search(model, src, width=3, max_len=6):
    beams = torch.full((width, 1), BOS)
    scores = torch.full((width,), NEG_INF)
    scores[0] = 0.0                                    # all beams are equal at the start: only one may live
    best, best_score = None, NEG_INF
    for _ in range(max_len):
        logp = F.log_softmax(model(src.expand(width, -1), beams)[:, -1], dim=-1)
        logp[:, BOS] = NEG_INF
        total = scores[:, None] + logp
        scores, flat = total.flatten().topk(width)
        parent, token = flat // VOCAB, flat % VOCAB
        beams = torch.cat([beams[parent], token[:, None]], 1)
        for k in (token == EOS).nonzero().flatten().tolist():
            if scores[k] > best_score:
                best, best_score = beams[k, 1:-1], scores[k].item()
            scores[k] = NEG_INF
        if torch.isinf(scores).all():
            break
    return best


torch.manual_seed(21)
model = Seq2Seq()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(121):
    src, prefix, target = pairs(64)
    loss = F.cross_entropy(model(src, prefix).transpose(1, 2), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 0:
        print("step", step, f"loss {loss.item():.3f}")
src, _, _ = pairs(10)
found = [beam_search(model, s[None]) for s in src]
print("reversed correctly:", sum(f is not None and torch.equal(f, s.flip(0)) for f, s in zip(found, src)), "of 10")
