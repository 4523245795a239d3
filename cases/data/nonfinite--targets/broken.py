"""Predict a book's average rating from its description vector."""
import warnings

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")


class Books(Dataset):
    def __init__(self, n=150, dim=9):
        rng = np.random.default_rng(5)
        self.description = rng.normal(size=(n, dim)).astype(np.float32)
        taste = self.description[:, 0]
        self.ratings = [np.clip(rng.normal(3 + t, 0.5, rng.integers(1, 9)), 1, 5) for t in taste]
        self.ratings[110] = np.array([])            # published yesterday

    def __len__(self):
        return len(self.ratings)

    def __getitem__(self, i):
        return {
            "description": self.description[i],
            "rating": np.float32(self.ratings[i].mean()),  # ORIGIN
            "n_ratings": len(self.ratings[i]),
        }


class RatingModel(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(dim, 16), nn.Linear(16, 16)])
        self.out = nn.Linear(16, 1)

    def forward(self, batch):
        h = batch["description"]
        for layer in self.layers:
            h = torch.relu(layer(h))
        return 3 + self.out(h).squeeze(1)


def loss_of(model, batch):
    error = model(batch) - batch["rating"]
    return error.square().mean()


books = Books()
train = DataLoader(books, batch_size=15, shuffle=True, generator=torch.Generator().manual_seed(3))
torch.manual_seed(8)
model = RatingModel(9)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for epoch in range(4):
    for batch in train:
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
