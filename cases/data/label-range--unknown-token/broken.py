import random
from collections import Counter

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

GOOD = "great lovely superb charming funny warm".split()
BAD = "dull awful boring clumsy noisy cold".split()
FILL = "the film plot cast was and a bit story music with scenes".split()


def make_reviews(n, seed):
    r = random.Random(seed)
    reviews = []
    for _ in range(n):
        label = r.randrange(2)
        words = r.choices(FILL, k=r.randint(4, 9)) + r.choices(GOOD if label else BAD, k=3)
        r.shuffle(words)
        reviews.append((" ".join(words), label))
    return reviews


class Reviews(Dataset):
    def __init__(self, reviews, stoi):
        self.reviews = reviews
        self.stoi = stoi

    def __len__(self):
        return len(self.reviews)

    def __getitem__(self, i):
        text, label = self.reviews[i]
        ids = torch.tensor([self.stoi.get(w, len(self.stoi)) for w in text.split()])  # ORIGIN
        return ids, label


def collate(batch):
    ids, labels = zip(*batch)
    return pad_sequence(ids, batch_first=True, padding_value=0), torch.tensor(labels)


class MeanClassifier(nn.Module):
    def __init__(self, n_tokens):
        super().__init__()
        self.table = nn.Embedding(n_tokens, 16, padding_idx=0)
        self.out = nn.Linear(16, 2)

    def forward(self, ids):
        lengths = (ids != 0).sum(1, keepdim=True)
        return self.out(self.table(ids).sum(1) / lengths)


random.seed(0)
torch.manual_seed(0)
train, valid = make_reviews(300, 1), make_reviews(60, 2)
valid[38] = ("the film was soporific and the music dull", 0)
counts = Counter(w for text, _ in train for w in text.split())
stoi = {"<pad>": 0}
for word, _ in counts.most_common():
    stoi[word] = len(stoi)

train_loader = DataLoader(Reviews(train, stoi), batch_size=20, shuffle=True, collate_fn=collate)
valid_loader = DataLoader(Reviews(valid, stoi), batch_size=20, collate_fn=collate)
model = MeanClassifier(len(stoi))
opt = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(3):
    model.train()
    for ids, labels in train_loader:
        loss = nn.functional.cross_entropy(model(ids), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        hits = sum((model(ids).argmax(1) == labels).sum().item() for ids, labels in valid_loader)
    print(f"epoch {epoch}: loss {loss.item():.3f} valid accuracy {hits / len(valid):.3f}")
