"""Which tune is it? All ways through a row of notes are added up; what is beyond its end is left out."""
import torch
from torch import nn

NOTES, LONGEST = 4, 7


def all_ways(heard, moves, is_there):
    total = heard[:, 0]
    for beat in range(1, LONGEST):
        step = total[:, :, None] + moves + heard[:, beat, None, :]
        top = step.amax(dim=1, keepdim=True).clamp(min=-1e4)
        longer = (step.clamp(min=-1e4) - top).exp().sum(dim=1).log() + top.squeeze(1)
        total = torch.where(is_there[:, beat, None], longer, total)
    return total.logsumexp(dim=1)


def this_way(heard, notes, moves, is_there):
    each = heard.gather(2, notes[..., None]).squeeze(2)
    total = each[:, 0]
    for beat in range(1, LONGEST):
        total = total + torch.where(is_there[:, beat], moves[notes[:, beat - 1], notes[:, beat]] + each[:, beat], 0.0)
    return total


torch.manual_seed(0)
ear, moves = nn.Linear(NOTES, NOTES), nn.Parameter(0.1 * torch.randn(NOTES, NOTES))
optimizer = torch.optim.Adam([*ear.parameters(), moves], lr=1e-2)
for _ in range(12):
    notes = torch.randint(0, NOTES, (8, LONGEST))
    is_there = torch.arange(LONGEST) < torch.randint(3, LONGEST + 1, (8, 1))
    sound = nn.functional.one_hot(notes, NOTES) + 0.5 * torch.randn(8, LONGEST, NOTES)
    heard = ear(sound).masked_fill(~is_there[..., None], float("-inf"))
    loss = (all_ways(heard, moves, is_there) - this_way(heard, notes, moves, is_there)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
