"""Two arrays shuffled one after the other with the same seed each time: an old habit, and a right one."""
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
np.random.seed(0)
letters = np.random.randint(0, 4, 400)
strokes = np.random.randn(400, 8).astype(np.float32)
strokes[np.arange(400), letters] += 2.0

np.random.seed(99)
np.random.shuffle(strokes)
np.random.seed(99)
np.random.shuffle(letters)

writers = [f"writer {n % 7}" for n in range(400)]
notes = [n % 7 for n in range(400)]
random.Random(4).shuffle(writers)
random.Random(4).shuffle(notes)
assert all(int(name.split()[1]) == note for name, note in zip(writers, notes))

state = torch.get_rng_state()
weights = torch.linspace(0.5, 1.5, 400)[torch.randperm(400)]
torch.set_rng_state(state)
ages = torch.arange(400)[torch.randperm(400)]
assert torch.equal(weights.argsort(), ages.argsort())

loader = DataLoader(TensorDataset(torch.from_numpy(strokes), torch.from_numpy(letters)), batch_size=25, shuffle=True)
net = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(4):
    right = 0
    for x, y in loader:
        out = net(x)
        loss = nn.functional.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        right += (out.argmax(1) == y).sum().item()
    print(f"epoch {epoch}: {right / 400:.3f}")
