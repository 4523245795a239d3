import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, Dataset


class Spots(Dataset):
    """10x10 images with one bright spot; the label is the quadrant."""

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100_003 + i)
        r, c = torch.randint(0, 10, (2,), generator=g).tolist()
        img = 0.2 * torch.randn(1, 10, 10, generator=g)
        img[0, max(r - 1, 0):r + 2, max(c - 1, 0):c + 2] += 1.5
        return img, 2 * (r >= 5) + (c >= 5)


EPOCHS = 6
torch.manual_seed(17)
train = DataLoader(Spots(160, 1), batch_size=16, shuffle=True)
valid = DataLoader(Spots(64, 2), batch_size=32)
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, 4))
opt = torch.optim.AdamW(net.parameters(), lr=1e-4)         # replaced by the schedule at once
sched = OneCycleLR(opt, max_lr=0.02, epochs=EPOCHS, steps_per_epoch=len(train), pct_start=0.3)

lrs = []
for epoch in range(EPOCHS):
    net.train()
    mean = 0.0
    for x, y in train:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        lrs.append(sched.get_last_lr()[0])
        sched.step()                                          # sixty small steps, rise and then fall to ~0
        mean += loss.item() / len(train)
    net.eval()
    hits = 0
    with torch.no_grad():
        for x, y in valid:
            hits += (net(x).argmax(1) == y).sum().item()
    print(f"epoch {epoch} loss {mean:.3f} valid {hits / 64:.2f} lr {lrs[-1]:.2e}")
print(f"lr from {lrs[0]:.1e} over {max(lrs):.1e} to {lrs[-1]:.1e}")
