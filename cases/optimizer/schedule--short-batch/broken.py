import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Fit:
    def __init__(self, data, batch=40, epochs=5):
        self.loader = DataLoader(data, batch, shuffle=True)
        self.epochs = epochs
        self.net = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 2))
        self.opt = optim.AdamW(self.net.parameters(), lr=1e-3)
        per_epoch = len(data) // batch  # ORIGIN
        self.rate = optim.lr_scheduler.OneCycleLR(self.opt, 1e-2, epochs=epochs, steps_per_epoch=per_epoch)

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        self.opt.step()
        self.rate.step()
        return loss.detach()

    def run(self):
        for epoch in range(self.epochs):
            losses = [self.step(x, y) for x, y in self.loader]
            print(f"{epoch}: {torch.stack(losses).mean():.4f}  rate {self.rate.get_last_lr()[0]:.2e}")


torch.manual_seed(13)
points = torch.randn(530, 10)
labels = (points[:, :3].sum(1) > points[:, 3:6].sum(1)).long()
Fit(TensorDataset(points, labels)).run()
