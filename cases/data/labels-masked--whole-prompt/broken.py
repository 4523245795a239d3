"""Fine-tune a character model to answer little sums; only the answer should be learned."""
import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

CHARS = "_0123456789+=?. "
STOI = {c: i for i, c in enumerate(CHARS)}
IGNORE = -100


def encode(text):
    return torch.tensor([STOI[c] for c in text])


class Sums(Dataset):
    def __init__(self, n):
        rnd = random.Random(0)
        self.pairs = [(rnd.randint(0, 4), rnd.randint(0, 4)) for _ in range(n)]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        a, b = self.pairs[i]
        prompt = f"{a}+{b}=? "
        text = prompt + f"{a + b}."
        ids = encode(text)
        labels = ids.clone()
        labels[: len(encode(text))] = IGNORE  # ORIGIN
        return {"input_ids": ids, "labels": labels}


def collate(rows):
    ids = pad_sequence([r["input_ids"] for r in rows], batch_first=True, padding_value=0)
    labels = pad_sequence([r["labels"] for r in rows], batch_first=True, padding_value=IGNORE)
    return ids, labels


class CharLM(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.emb = nn.Embedding(len(CHARS), dim, padding_idx=0)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, len(CHARS))

    def forward(self, ids):
        h, _ = self.gru(self.emb(ids))
        return self.out(h)


torch.manual_seed(0)
model = CharLM()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
loader = DataLoader(Sums(480), batch_size=24, shuffle=True, collate_fn=collate)

for epoch in range(3):
    epoch_loss, tokens = 0.0, 0
    for ids, labels in loader:
        logits = model(ids)[:, :-1]
        target = labels[:, 1:]
        n = (target != IGNORE).sum()
        nll = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=IGNORE, reduction="sum")
        loss = nll / n.clamp(min=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch_loss += nll.item()
        tokens += n.item()
    print(f"epoch {epoch}: loss per token {epoch_loss / max(tokens, 1):.4f}")
