import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PRIOR = 0.1  # share of positives, as for focal loss heads


def build_tagger(n_in, n_tags):
    net = nn.Sequential(
        nn.Linear(n_in, 64),
        nn.ReLU(),
        nn.Linear(64, n_tags),
    )
    bias = -math.log((1 - PRIOR) / PRIOR)
    nn.init.constant_(net[-1].bias, bias)
    return net


def make_tags(n, n_in, n_tags):
    x = torch.randn(n, n_in)
    w = torch.randn(n_in, n_tags) / n_in ** 0.5
    score = x @ w
    return x, (score > score.quantile(1 - PRIOR, dim=0)).float()


def main():
    torch.manual_seed(0)
    x, y = make_tags(800, 20, 6)
    loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
    model = build_tagger(20, 6)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(5):
        total = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = bce(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: bce {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
