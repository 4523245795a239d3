"""Packs each batch by length (samples move together with their labels), puts the outputs back in the given order."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader


@dataclass
class Padded:
    steps: torch.Tensor
    lengths: torch.Tensor
    target: torch.Tensor


def walk():
    """a random walk; the target is where it ends, in units of its own spread"""
    steps = torch.randn(int(torch.randint(5, 25, ())), 1)
    return steps, steps.sum() / len(steps) ** 0.5


def collate(samples):
    steps, ends = zip(*samples)
    return Padded(pad_sequence(steps, batch_first=True), torch.tensor([len(s) for s in steps]), torch.stack(ends))


class EndPoint(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, batch):
        order = batch.lengths.argsort(descending=True)
        packed = pack_padded_sequence(batch.steps[order], batch.lengths[order], batch_first=True)
        _, (h, _) = self.lstm(packed)
        back = order.argsort()
        return self.out(h[-1][back]).squeeze(1)


def main():
    torch.manual_seed(44)
    walks = [walk() for _ in range(160)]
    loader = DataLoader(walks, batch_size=16, shuffle=True, collate_fn=collate)
    net = EndPoint()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(4):
        errors = []
        for batch in loader:
            loss = nn.functional.mse_loss(net(batch), batch.target)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            opt.step()
            errors.append(loss.item())
        print(f"epoch {epoch}: mse {sum(errors) / len(errors):.4f}")


main()
