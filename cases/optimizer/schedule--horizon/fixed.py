import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Parabolas(Dataset):
    def __init__(self, n):
        self.coef = torch.randn(n, 3)
        self.grid = torch.linspace(-1, 1, 12)

    def __len__(self):
        return self.coef.shape[0]

    def __getitem__(self, i):
        a, b, c = self.coef[i]
        curve = a * self.grid ** 2 + b * self.grid + c
        return curve + 0.05 * torch.randn(12), self.coef[i]


def fit(epochs=4, batch_size=32, max_lr=0.05):
    torch.manual_seed(30)
    dataset = Parabolas(640)
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True)
    net = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 3))
    opt = torch.optim.SGD(net.parameters(), lr=max_lr, momentum=0.9)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=max_lr, epochs=epochs, steps_per_epoch=len(loader))
    for epoch in range(epochs):
        losses = []
        for curve, coef in loader:
            loss = nn.functional.mse_loss(net(curve), coef)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            losses.append(loss.item())
        print(f"epoch {epoch}  lr {sched.get_last_lr()[0]:.5f}  loss {sum(losses) / len(losses):.4f}")


fit()
