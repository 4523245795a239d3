import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset

WINDOW = 10


def quotes(seed, days=260):
    r = np.random.default_rng(seed)
    drift = np.sin(np.arange(days) / 9.0) * 0.01
    close = 50 * np.exp(np.cumsum(drift + 0.004 * r.standard_normal(days)))
    return close.astype(np.float32)


class Returns(IterableDataset):
    """Streams (last ten daily returns, next return), all tickers after each other."""

    def __init__(self, book):
        self.book = book

    def __iter__(self):
        for ticker in torch.randperm(len(self.book)).tolist():
            close = self.book[ticker]
            ret = (close[1:] - close[:-1]) / close[:-1]  # ORIGIN
            for t in range(0, len(ret) - WINDOW, 3):
                past = torch.from_numpy(ret[t : t + WINDOW]) * 100
                yield past, torch.tensor(ret[t + WINDOW] * 100)


book = [quotes(s) for s in range(5)]
book[3][120:124] = 0.0  # no quotes during the halt

torch.manual_seed(2)
stream = DataLoader(Returns(book), batch_size=25)
model = nn.Sequential(nn.Linear(WINDOW, 20), nn.ReLU(), nn.Linear(20, 1))
opt = torch.optim.RMSprop(model.parameters(), lr=2e-3)
huber = nn.HuberLoss()

for epoch in range(3):
    log = []
    for past, nxt in stream:
        opt.zero_grad()
        loss = huber(model(past)[:, 0], nxt)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        log.append(loss.item())
    print(f"epoch {epoch}: {np.mean(log):.4f} ({len(log)} batches)")
