"""Opening moves as numbers; a part of them is hidden when they are put into batches, and is to be guessed."""
import random

import torch
from torch import nn
from torch.utils.data import DataLoader

MOVES = 12
HIDDEN = 12


def hide(games):
    moves = torch.tensor(games)
    picked = torch.rand(moves.shape) < 0.25
    picked[:, 3] = True
    return torch.where(picked, HIDDEN, moves), moves.masked_fill(~picked, -100)


class Guess(nn.Module):
    def __init__(self):
        super().__init__()
        self.move = nn.Embedding(MOVES + 1, 12)
        self.read = nn.GRU(12, 12, batch_first=True)
        self.out = nn.Linear(12, MOVES)

    def forward(self, moves):
        return self.out(self.read(self.move(moves))[0])


random.seed(4)
torch.manual_seed(4)
games = [[(first + 2 * k) % MOVES for k in range(6)] for first in random.choices(range(MOVES), k=160)]
loader = DataLoader(games, batch_size=32, shuffle=True, collate_fn=hide)
model = Guess()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for seen, true in loader:
        loss = nn.functional.cross_entropy(model(seen).transpose(1, 2), true)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 3))
