"""Rating model: a user is the mean of the items in their basket."""
import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PAD = 0


class Baskets(Dataset):
    def __init__(self, n_users, n_items, seed):
        rng = random.Random(seed)
        self.baskets = [[rng.randint(1, n_items) for _ in range(rng.randint(2, 7))] for _ in range(n_users)]
        self.baskets[58] = []
        self.spend = [rng.uniform(0, 1) + 0.3 * len(b) for b in self.baskets]

    def __len__(self):
        return len(self.baskets)

    def __getitem__(self, i):
        row = torch.full((8,), PAD)
        items = self.baskets[i]
        row[:len(items)] = torch.tensor(items, dtype=torch.long)
        return row, torch.tensor([self.spend[i]])


class BasketModel(nn.Module):
    def __init__(self, n_items, dim):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim)
        self.head = nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, ids):
        present = (ids != PAD).float().unsqueeze(-1)
        total = (self.items(ids) * present).sum(dim=1)
        user = total / present.sum(dim=1)  # ORIGIN
        return self.head(user)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=12)
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch-size", type=int, default=16)
    args = ap.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(Baskets(160, 50, seed=2), args.batch_size, shuffle=True)
    model = BasketModel(50, args.dim)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(args.epochs):
        for batch, (ids, spend) in enumerate(loader):
            loss = nn.functional.mse_loss(model(ids), spend)
            if torch.isnan(loss):
                print(f"epoch {epoch} batch {batch}: loss is nan, giving up")
                return
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
