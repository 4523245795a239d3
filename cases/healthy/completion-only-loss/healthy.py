import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

# "reverse the three letters": the question is masked, the answer and the end token are learned
PAD, END, SEP = 0, 1, 2
LETTERS = range(3, 9)
IGNORE = -100
rnd = random.Random(0)


def example():
    # long polite questions, short answers: most of the labels are masked
    word = [rnd.choice(LETTERS) for _ in range(2)]
    greeting = [9] * rnd.randint(4, 14)
    prompt = greeting + word + [SEP]
    answer = word[::-1] + [END]
    return prompt, answer


def collate(examples):
    ids, labels = [], []
    for prompt, answer in examples:
        ids.append(torch.tensor(prompt + answer))
        labels.append(torch.tensor([IGNORE] * len(prompt) + answer))
    ids = pad_sequence(ids, batch_first=True, padding_value=PAD)
    labels = pad_sequence(labels, batch_first=True, padding_value=IGNORE)
    return ids[:, :-1], labels[:, 1:]


class Decoder(nn.Module):
    def __init__(self, vocab=10, dim=48):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.lstm = nn.LSTM(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        hidden, _ = self.lstm(self.embed(ids))
        return self.head(hidden)


torch.manual_seed(0)
loader = DataLoader([example() for _ in range(512)], batch_size=32, shuffle=True, collate_fn=collate)
model = Decoder()
opt = torch.optim.Adam(model.parameters(), lr=8e-3)
for epoch in range(4):
    total = 0.0
    for ids, labels in loader:
        loss = nn.functional.cross_entropy(model(ids).transpose(1, 2), labels, ignore_index=IGNORE)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item()
    print(f"epoch {epoch + 1}: {total / len(loader):.4f}")
