import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader


def gesture(rnd):
    """wrist acceleration while drawing a circle (0), a line (1) or a zigzag (2)"""
    kind = rnd.randrange(3)
    length = rnd.randint(6, 20)
    t = torch.arange(length) / 3
    curve = [torch.stack([t.cos(), t.sin()], 1), torch.stack([t / 3 - 1, t * 0], 1), torch.stack([t / 3 - 1, (3 * t).sin()], 1)][kind]
    return curve + 0.1 * torch.randn(length, 2), kind


def collate(batch):
    batch = sorted(batch, key=lambda item: len(item[0]), reverse=True)
    seqs = [s for s, _ in batch]
    kinds = torch.tensor([k for _, k in batch])
    lengths = torch.tensor([len(s) for s in seqs])
    return pack_padded_sequence(pad_sequence(seqs, batch_first=True), lengths, batch_first=True), kinds


class GestureNet(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.gru = nn.GRU(2, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 3)

    def forward(self, packed):
        _, h = self.gru(packed)
        return self.head(h[-1])


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = [(model(p).argmax(1) == k).float() for p, k in loader]
    model.train()
    return torch.cat(hits).mean().item()


def main():
    torch.manual_seed(6)
    rnd = random.Random(6)
    train = [gesture(rnd) for _ in range(192)]
    test = [gesture(rnd) for _ in range(64)]
    train_loader = DataLoader(train, batch_size=16, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(test, batch_size=16, collate_fn=collate)
    model = GestureNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(4):
        for packed, kinds in train_loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(packed), kinds)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}, test accuracy {accuracy(model, test_loader):.3f}")


if __name__ == "__main__":
    main()
