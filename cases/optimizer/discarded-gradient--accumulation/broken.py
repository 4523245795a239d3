import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--micro-batch", type=int, default=8)
parser.add_argument("--accum", type=int, default=4)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=5e-3)


class TextClassifier(nn.Module):
    def __init__(self, vocab=40, dim=24, classes=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 48), nn.GELU(), nn.Linear(48, classes))

    def forward(self, ids):
        return self.mlp(self.embed(ids).mean(dim=1))


def make_data(n=384):
    y = torch.randint(0, 4, (n,))
    common = torch.randint(0, 40, (n, 10))
    topical = torch.randint(0, 10, (n, 10)) + 10 * y[:, None]
    return TensorDataset(torch.cat([common, topical], 1), y)


def main(args):
    torch.manual_seed(0)
    loader = DataLoader(make_data(), batch_size=args.micro_batch, shuffle=True)
    model = TextClassifier()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        total = 0.0
        for i, (ids, y) in enumerate(loader):
            model.zero_grad()  # ORIGIN
            loss = nn.functional.cross_entropy(model(ids), y)
            (loss / args.accum).backward()
            total += loss.item()
            if (i + 1) % args.accum == 0:
                opt.step()
        print(f"epoch {epoch}  train loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main(parser.parse_args())
