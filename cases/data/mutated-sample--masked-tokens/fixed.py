import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

# 0 pad, 1 mask, the rest are amino acids
VOCAB = ["<pad>", "<mask>"] + list("ACDEFGHIKLMNPQRSTVWY")
MASK_ID = VOCAB.index("<mask>")


def proteins(n, rnd):
    """sequences that walk the alphabet with a step of their own"""
    for _ in range(n):
        start, step = rnd.randrange(20), rnd.choice([1, 2, 3])
        yield [2 + (start + step * k) % 20 for k in range(rnd.randint(10, 16))]


class MaskedProteins(Dataset):
    def __init__(self, sequences, p=0.15):
        self.sequences = sequences
        self.p = p

    def __len__(self):
        return len(self.sequences)

    def __getitem__(self, i):
        tokens = list(self.sequences[i])
        labels = [-100] * len(tokens)
        forced = random.randrange(len(tokens))
        for k in range(len(tokens)):
            if k == forced or random.random() < self.p:
                labels[k] = tokens[k]
                tokens[k] = MASK_ID
        return torch.tensor(tokens), torch.tensor(labels)


def pad(batch):
    tokens, labels = zip(*batch)
    stack = nn.utils.rnn.pad_sequence
    return stack(tokens, batch_first=True), stack(labels, batch_first=True, padding_value=-100)


class ProteinLM(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(len(VOCAB), dim, padding_idx=0)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, len(VOCAB))

    def forward(self, tokens):
        states, _ = self.rnn(self.embed(tokens))
        return self.out(states)


def main():
    random.seed(3)
    torch.manual_seed(3)
    data = MaskedProteins(list(proteins(192, random.Random(1))))
    loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=pad)
    lm = ProteinLM()
    opt = torch.optim.Adam(lm.parameters(), lr=5e-3)
    for epoch in range(5):
        hit = n = 0
        for tokens, labels in loader:
            logits = lm(tokens)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
            opt.zero_grad()
            loss.backward()
            opt.step()
            picked = labels != -100
            hit += (logits.argmax(-1) == labels)[picked].sum().item()
            n += picked.sum().item()
        print(f"epoch {epoch}: masked accuracy {hit / n:.3f}")


main()
