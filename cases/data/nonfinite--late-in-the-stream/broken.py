"""Ticks of a market as they come. Which way does the price go next?"""
import torch
from torch.utils.data import DataLoader, IterableDataset

from ticks_broken import Window, ticks


class Ticks(IterableDataset):
    def __iter__(self):
        window = Window(8)
        for price, volume, rises in ticks(5, 1600):
            window.push(price, volume)
            if window.is_full:
                yield {"x": window.features(), "y": rises}


torch.manual_seed(5)
net = torch.nn.Sequential(torch.nn.Linear(9, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for number, batch in enumerate(DataLoader(Ticks(), batch_size=32)):
    loss = torch.nn.functional.binary_cross_entropy_with_logits(net(batch["x"])[:, 0], batch["y"].float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if number % 10 == 9:
        print(f"{number + 1} batches: {loss.item():.4f}")
