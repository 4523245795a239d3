import argparse

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description="GRU that counts spikes in a signal")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--hidden", type=int, default=24)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=5e-3)


class SpikeCounter(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.gru = nn.GRU(1, args.hidden, args.layers, batch_first=True)
        self.count = nn.Linear(args.hidden, 1)

    def forward(self, signal):
        h0 = torch.zeros(self.args.layers, self.args.batch_size, self.args.hidden)  # ORIGIN
        states, _ = self.gru(signal, h0)
        return self.count(states[:, -1]).squeeze(-1)


def signals(n, length=30):
    noise = torch.randn(n, length) * 0.05
    spikes = (torch.rand(n, length) < 0.1).float()
    return TensorDataset((noise + spikes).unsqueeze(-1), spikes.sum(1))


def main():
    args = parser.parse_args([])
    torch.manual_seed(8)
    model = SpikeCounter(args)
    loader = DataLoader(signals(101), args.batch_size, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        for signal, count in loader:
            loss = nn.functional.smooth_l1_loss(model(signal), count)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(f"[{epoch}/{args.epochs}] {loss.item():.3f}")


main()
