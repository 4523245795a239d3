import torch
import torch.nn as nn
import torch.nn.functional as F


class Learner:
    def __init__(self, d=24, width=256, classes=5):
        self.body = nn.Sequential(nn.Linear(d, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.cls = nn.Linear(width, classes)
        self.opt = torch.optim.Adam([*self.body.parameters(), *self.cls.parameters()], lr=1e-3)
        self.energy = torch.tensor(0.0)

    def step(self, x, y):
        feat = self.body(x)
        loss = F.cross_entropy(self.cls(feat), y)
        # smoothed size of the features, to see when they blow up
        self.energy = 0.95 * self.energy + 0.05 * feat.detach().pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def data(steps):
    g = torch.Generator().manual_seed(1)
    centres = torch.randn(5, 24, generator=g)
    for _ in range(steps):
        y = torch.randint(0, 5, (256,), generator=g)
        yield centres[y] + 1.2 * torch.randn(256, 24, generator=g), y


torch.manual_seed(0)
learner = Learner()
for i, (x, y) in enumerate(data(100)):
    loss = learner.step(x, y)
    if i % 20 == 0:
        print(f"{i:3d}  loss {loss:.4f}  energy {learner.energy.item():.4f}")
