import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from tagging import PAD_TAG, drop_padding

VOCAB, TAGS = 30, 4


def make_corpus(n, rng):
    corpus = []
    for _ in range(n):
        words = [rng.randrange(1, VOCAB) for _ in range(rng.randint(4, 12))]
        # the tag depends on the word and on the one before it
        tags = [(w + (words[i - 1] if i else 0) // 15) % TAGS for i, w in enumerate(words)]
        corpus.append((torch.tensor(words), torch.tensor(tags)))
    return corpus


def collate(samples):
    words, tags = zip(*samples)
    return (
        pad_sequence(words, batch_first=True, padding_value=0),
        pad_sequence(tags, batch_first=True, padding_value=PAD_TAG),
    )


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 24, padding_idx=0)
        self.rnn = nn.GRU(24, 32, batch_first=True)
        self.proj = nn.Linear(32, TAGS)

    def forward(self, words):
        h, _ = self.rnn(self.emb(words))
        scores = self.proj(h)
        return scores


torch.manual_seed(5)
corpus = make_corpus(240, random.Random(5))
loader = DataLoader(corpus, batch_size=24, shuffle=True, collate_fn=collate)
tagger = Tagger()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(tagger.parameters(), lr=1e-2)

for epoch in range(5):
    losses = []
    for words, tags in loader:
        optimizer.zero_grad()
        scores, gold = drop_padding(tagger(words), tags)
        loss = criterion(scores, gold)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f}")
