"""Sorts support tickets by topic. Long tickets are cut, and every ticket gets a mark at its beginning and one at its end."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MAX_LENGTH = 32
BEGIN, END, PADDING = 1, 2, 0
TOPICS = {"billing": "invoice refund card charge", "login": "password reset locked email", "crash": "error freeze restart log"}
FILLER = "please the my when again still is it since yesterday and on".split()


def tickets(count, seed=7):
    rng = random.Random(seed)
    for number in range(count):
        topic = rng.randrange(len(TOPICS))
        length = 70 if number == 150 else rng.randint(6, 24)
        words = list(TOPICS.values())[topic].split()
        yield " ".join(rng.choice(words if rng.random() < 0.3 else FILLER) for _ in range(length)), topic


class Tickets(Dataset):
    def __init__(self, rows):
        self.rows = list(rows)
        known = sorted({word for text, _ in self.rows for word in text.split()})
        self.ids = {word: number + 3 for number, word in enumerate(known)}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        text, topic = self.rows[index]
        ids = [self.ids[word] for word in text.split()][: MAX_LENGTH - 2]
        ids.insert(0, BEGIN)
        ids.append(END)
        return torch.tensor(ids), topic


def padded(samples):
    ids = nn.utils.rnn.pad_sequence([ids for ids, _ in samples], batch_first=True, padding_value=PADDING)
    return ids, torch.tensor([topic for _, topic in samples])


class Sorter(nn.Module):
    def __init__(self, words, width=24):
        super().__init__()
        self.word = nn.Embedding(words, width, padding_idx=PADDING)
        self.place = nn.Embedding(MAX_LENGTH, width)
        self.layer = nn.TransformerEncoderLayer(width, 2, 48, dropout=0.0, batch_first=True)
        self.topic = nn.Linear(width, len(TOPICS))

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        hidden = self.word(ids) + self.place(places)
        return self.topic(self.layer(hidden, src_key_padding_mask=ids == PADDING)[:, 0])


def main():
    torch.manual_seed(0)
    data = Tickets(tickets(240))
    model = Sorter(len(data.ids) + 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for ids, topic in DataLoader(data, batch_size=12, collate_fn=padded):
        loss = nn.functional.cross_entropy(model(ids), topic)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
