import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import OneCycleLR

torch.manual_seed(17)


class Smoother(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 12, 7, padding=3)
        self.conv2 = nn.Conv1d(12, 1, 7, padding=3)

    def forward(self, x):
        return self.conv2(torch.tanh(self.conv1(x)))


def windows(n=24):
    for _ in range(n):
        t = torch.rand(16, 1, 1) * 6 + torch.linspace(0, 6, 48)
        yield torch.sin(t) + 0.2 * torch.randn(16, 1, 48), torch.sin(t)


def train(model, passes, steps, peak):
    opt = torch.optim.SGD(model.parameters(), lr=peak / 10, momentum=0.9)
    sched = OneCycleLR(opt, max_lr=peak, total_steps=steps)
    for p in range(passes):
        for noisy, clean in windows():
            loss = F.mse_loss(model(noisy), clean)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
        print(p, round(loss.item(), 4))


train(Smoother(), passes=3, steps=24, peak=0.05)  # ORIGIN
