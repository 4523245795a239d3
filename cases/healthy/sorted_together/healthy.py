"""Sentences sorted by length in the collate function, with their labels; names go along in the order they came in."""
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import DataLoader


def collate(batch):
    names = [name for name, _, _ in batch]
    order = sorted(range(len(batch)), key=lambda i: len(batch[i][1]), reverse=True)
    packed = pack_sequence([batch[i][1] for i in order])
    moods = torch.tensor([batch[i][2] for i in order])
    return {"packed": packed, "mood": moods, "names": [names[i] for i in order]}


class Mood(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 12)
        self.rnn = nn.GRU(12, 16)
        self.out = nn.Linear(16, 3)

    def forward(self, packed):
        words = packed._replace(data=self.embed(packed.data))
        return self.out(self.rnn(words)[1][-1])


torch.manual_seed(21)
rnd = random.Random(21)
reviews = []
for number in range(180):
    mood = rnd.randrange(3)
    words = [rnd.randrange(12 * mood, 12 * mood + 16) for _ in range(rnd.randint(3, 15))]
    reviews.append((f"review {number}", torch.tensor(words), mood))
loader = DataLoader(reviews, batch_size=18, shuffle=True, collate_fn=collate)
model = Mood()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    right = 0
    for batch in loader:
        logits = model(batch["packed"])
        loss = nn.functional.cross_entropy(logits, batch["mood"])
        opt.zero_grad()
        loss.backward()
        opt.step()
        right += (logits.argmax(1) == batch["mood"]).sum().item()
    print(f"epoch {epoch}: {right / 180:.3f}")
