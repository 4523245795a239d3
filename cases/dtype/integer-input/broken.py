"""Bag-of-words topic classifier."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
VOCAB = ["goal", "match", "team", "score", "bank", "stock", "market", "price", "the", "a"]
WORD2ID = {w: i for i, w in enumerate(VOCAB)}

DOCS = [
    ("the team won the match with a late goal", 0),
    ("a goal and a score of two in the match", 0),
    ("the score of the team was good", 0),
    ("the bank raised the price of the stock", 1),
    ("a stock market price fell", 1),
    ("the market likes the bank", 1),
] * 8


def bag_of_words(text):
    ids = torch.tensor([WORD2ID[w] for w in text.split() if w in WORD2ID])
    return torch.bincount(ids, minlength=len(VOCAB))  # ORIGIN


def build_dataset(docs):
    bags = torch.stack([bag_of_words(text) for text, _ in docs])
    topics = torch.tensor([topic for _, topic in docs])
    return TensorDataset(bags, topics)


classifier = nn.Sequential(nn.Linear(len(VOCAB), 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(classifier.parameters(), lr=5e-3)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(4):
    for bags, topics in DataLoader(build_dataset(DOCS), batch_size=12, shuffle=True):
        optimizer.zero_grad()
        loss = loss_fn(classifier(bags), topics)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
