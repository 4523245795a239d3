import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(17)


def exposures(n, side=12):
    """two 8-bit exposures of one night scene with 1 to 3 lamps in it"""
    lamps = torch.randint(1, 4, (n,))
    scene = torch.full((n, side, side), 95.0)
    for k in range(n):
        spots = torch.randperm(9)[:int(lamps[k])]
        for s in spots.tolist():
            r, c = 1 + 4 * (s // 3), 1 + 4 * (s % 3)
            scene[k, r:r + 2, c:c + 2] += 100
    shots = [(scene + 14 * torch.randn(n, side, side)).clamp(0, 255).to(torch.uint8) for _ in range(2)]
    return shots[0], shots[1], lamps - 1


def merge(first, second):
    # averaging the two shots halves the sensor noise
    return (first.int() + second.int()) // 2


def prepare(first, second):
    return (merge(first, second).float() - 110.0) / 50.0


class LampCounter(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, padding=1)
        self.out = nn.Linear(6, 3)

    def forward(self, x):
        return self.out(F.relu(self.conv(x.unsqueeze(1))).mean(dim=(2, 3)) * 4)


first, second, count = exposures(400)
x = prepare(first, second)
net = LampCounter()
opt = torch.optim.Adam(net.parameters(), lr=0.03)
for epoch in range(6):
    good = 0
    for idx in torch.randperm(400).view(-1, 40):
        logits = net(x[idx])
        loss = F.cross_entropy(logits, count[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        good += (logits.argmax(1) == count[idx]).sum().item()
    print(f"epoch {epoch + 1}/6 loss {loss.item():.4f} acc {good / 400:.3f}")
