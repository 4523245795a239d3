"""Mixup with soft labels and label smoothing; the network ends in log_softmax, which cross entropy leaves as it is."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = 5


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(1, 12, 5, padding=2)
        self.conv2 = nn.Conv1d(12, 24, 5, padding=2)
        self.fc = nn.Linear(24 * 4, CLASSES)

    def forward(self, x):
        x = F.max_pool1d(F.leaky_relu(self.conv1(x)), 2)
        x = F.adaptive_avg_pool1d(F.leaky_relu(self.conv2(x)), 4)
        return F.log_softmax(self.fc(x.flatten(1)), dim=1)


class Mixup:
    def __init__(self, alpha, seed):
        self.alpha = alpha
        self.rng = np.random.default_rng(seed)

    def __call__(self, x, y):
        lam = float(self.rng.beta(self.alpha, self.alpha))
        order = torch.from_numpy(self.rng.permutation(len(x)))
        soft = F.one_hot(y, CLASSES).float()
        return lam * x + (1 - lam) * x[order], lam * soft + (1 - lam) * soft[order]


def tones(n):
    y = torch.randint(0, CLASSES, (n,))
    t = torch.linspace(0, 1, 32)
    x = torch.sin(2 * torch.pi * (y[:, None] + 1) * t + torch.rand(n, 1)) + 0.2 * torch.randn(n, 32)
    return x.unsqueeze(1), y


def train_one(model, opt, mix, steps=50):
    crit = nn.CrossEntropyLoss(label_smoothing=0.05)
    for step in range(steps):
        x, soft = mix(*tones(48))
        loss = crit(model(x), soft)      # probabilities as targets: float, (N, C)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step in (0, steps - 1):
            print(f"step {step:2d}  soft CE {loss.item():.3f}")


torch.manual_seed(21)
model = ConvNet()
train_one(model, torch.optim.Adam(model.parameters(), lr=5e-3), Mixup(alpha=0.4, seed=0))

model.eval()
with torch.no_grad():
    x, y = tones(200)
    logp = model(x)
    print(f"plain nll {F.nll_loss(logp, y).item():.3f}  acc {(logp.argmax(1) == y).float().mean().item():.2f}")
