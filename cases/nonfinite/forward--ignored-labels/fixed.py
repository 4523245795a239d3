"""Instruction tuning: the prompt is masked out of the loss, long conversations are cut to the context."""
import torch
import torch.nn.functional as F
from torch import nn

IGNORE = -100
CONTEXT = 16
ACCUMULATE = 4


def conversations(n):
    g = torch.Generator().manual_seed(10)
    for k in range(n):
        prompt_len = int(torch.randint(3, 9, (), generator=g))
        if k in (26, 27):                          # pasted a whole log file
            prompt_len = 40
        prompt = torch.randint(2, 30, (prompt_len,), generator=g)
        answer = prompt.flip(0)[:8]
        yield prompt, answer


def encode(prompt, answer):
    ids = torch.cat([prompt, answer])[:CONTEXT]
    labels = torch.cat([torch.full_like(prompt, IGNORE), answer])[:CONTEXT]
    room = CONTEXT - len(ids)
    return F.pad(ids, (0, room), value=1), F.pad(labels, (0, room), value=IGNORE)


def micro_batches(n, size=2):
    pairs = [encode(p, a) for p, a in conversations(n)]
    for k in range(0, n, size):
        ids, labels = zip(*pairs[k:k + size])
        yield torch.stack(ids), torch.stack(labels)


class TinyLM(nn.Module):
    def __init__(self, vocab=30, dim=24):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(CONTEXT, dim))
        self.block = nn.TransformerEncoderLayer(dim, nhead=2, dim_feedforward=48, dropout=0.0, batch_first=True)
        self.lm_head = nn.Linear(dim, vocab)
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, ids):
        return self.lm_head(self.block(self.tok(ids) + self.pos, src_mask=self.causal))


torch.manual_seed(0)
lm = TinyLM()
opt = torch.optim.AdamW(lm.parameters(), lr=1e-3)
running = 0.0
for i, (ids, labels) in enumerate(micro_batches(64)):
    logits = lm(ids)[:, :-1]
    wanted = labels[:, 1:].flatten()
    loss = F.cross_entropy(logits.flatten(0, 1), wanted, ignore_index=IGNORE, reduction="sum")
    loss = loss / (wanted != IGNORE).sum().clamp(min=1)
    (loss / ACCUMULATE).backward()
    running += loss.item() / ACCUMULATE
    if (i + 1) % ACCUMULATE == 0:
        nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        print(f"update {(i + 1) // ACCUMULATE}: loss {running:.3f}")
        running = 0.0
