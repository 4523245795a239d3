# %% imports
import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader

torch.manual_seed(0)


# %% toy dataset: tell squares from bars
class Shapes(Dataset):
    def __init__(self, count=80, side=12):
        self.count, self.side = count, side

    def __len__(self):
        return self.count

    def draw(self, label, rng):
        canvas = np.zeros((1, self.side, self.side), dtype=np.uint8)  # ORIGIN
        top, left = rng.integers(0, self.side - 6, size=2)
        if label == 0:
            canvas[0, top:top + 5, left:left + 5] = 1
        else:
            canvas[0, top:top + 2, :] = 1
        return canvas

    def __getitem__(self, idx):
        label = idx % 2
        return self.draw(label, np.random.default_rng(idx)), label


# %% model
net = nn.Sequential(
    nn.Conv2d(1, 6, kernel_size=3),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(6 * 5 * 5, 2),
)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
crit = nn.CrossEntropyLoss()

# %% train
history = []
for i, (img, lab) in enumerate(DataLoader(Shapes(), batch_size=10, shuffle=True)):
    try:
        opt.zero_grad()
        loss = crit(net(img), lab)
        loss.backward()
        opt.step()
        history.append(loss.item())
    except Exception as e:
        print("batch", i, "failed:", e)

# %% result
print("steps done:", len(history))
