"""Slot attention pooling, dry run on the accelerator device."""
import torch
from torch import nn


class SlotPool(nn.Module):
    def __init__(self, n_slots, width):
        super().__init__()
        self.slots = nn.Parameter(torch.randn(n_slots, width) * width ** -0.5)
        self.to_key = nn.Linear(width, width)
        self.to_value = nn.Linear(width, width)

    def forward(self, tokens):
        keys = self.to_key(tokens) + self.slots.mean(0)
        scores = self.slots @ keys.transpose(1, 2)
        return scores.softmax(-1) @ self.to_value(tokens)


def dry_run(device, rounds=3):
    torch.manual_seed(3)
    pool = SlotPool(n_slots=4, width=16).to(device)
    readout = nn.Linear(16, 2, device=device)
    opt = torch.optim.AdamW([*pool.parameters(), *readout.parameters()], lr=1e-3)
    for _ in range(rounds):
        tokens = torch.randn(8, 10, 16, device=device)
        loss = readout(pool(tokens)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return sum(p.numel() for p in pool.parameters())


print(dry_run("meta"), "parameters in the pool")
