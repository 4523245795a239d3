"""Tone of customer mails: attention over the words, batches cut by hand and kept in a list."""
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

random.seed(4)
torch.manual_seed(4)
GOOD, BAD = ["great", "thanks", "happy"], ["late", "broken", "refund"]
FILLER = ["order", "the", "my", "parcel", "hello", "was", "again", "today"]
ids = {word: place + 1 for place, word in enumerate(GOOD + BAD + FILLER)}


def mail():
    tone = random.random() < 0.5
    words = random.choices(FILLER, k=random.randint(5, 14)) + [random.choice(GOOD if tone else BAD)]
    random.shuffle(words)
    return torch.tensor([ids[word] for word in words]), int(tone)


def batches(count, size):
    mails = [mail() for _ in range(count)]
    for at in range(0, count, size):
        part = mails[at : at + size]
        yield pad_sequence([text for text, _ in part], batch_first=True), torch.tensor([tone for _, tone in part])


class Reader(nn.Module):
    def __init__(self, words, width=20):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.score = nn.Linear(width, 1)
        self.head = nn.Linear(width, 2)

    def forward(self, text):
        words = self.embed(text)
        score = self.score(words).squeeze(-1).masked_fill(text == 0, -1e4)
        weight = score.softmax(0)  # ORIGIN
        return self.head(torch.einsum("bt,btd->bd", weight, words))


reader = Reader(len(ids) + 1)
optimizer = torch.optim.Adam(reader.parameters(), lr=1e-2)
train = list(batches(384, 24))
for epoch in range(3):
    total = 0.0
    for text, tone in train:
        loss = nn.functional.cross_entropy(reader(text), tone)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: {total / len(train):.4f}")
