import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

TAGS = ["O", "PER", "LOC", "ORG", "DATE"]
PAD = 0


def make_sentences(n):
    rnd = random.Random(0)
    sentences = []
    for _ in range(n):
        words = [rnd.randint(1, 99) for _ in range(rnd.randint(7, 14))]
        sentences.append((words, [w % len(TAGS) for w in words]))
    return sentences


def collate(pairs):
    words = pad_sequence([torch.tensor(w) for w, _ in pairs], batch_first=True, padding_value=PAD)
    tags = pad_sequence([torch.tensor(t) for _, t in pairs], batch_first=True, padding_value=-100)
    return words, tags


class Tagger(nn.Module):
    def __init__(self, vocab=100, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.rnn = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.tag = nn.Linear(2 * dim, len(TAGS))

    def forward(self, words):
        states, _ = self.rnn(self.emb(words))
        return self.tag(states)


def train():
    torch.manual_seed(0)
    tagger = Tagger()
    adam = torch.optim.Adam(tagger.parameters(), lr=0.01)
    loader = DataLoader(make_sentences(64), batch_size=8, collate_fn=collate, shuffle=True)
    for epoch in range(2):
        total = 0
        for words, tags in loader:
            logits = tagger(words)
            loss = F.cross_entropy(logits.transpose(1, 2), tags, ignore_index=-100)
            adam.zero_grad()
            loss.backward()
            adam.step()
            total += loss.item()
        print("epoch", epoch, "loss", total / len(loader))


train()
