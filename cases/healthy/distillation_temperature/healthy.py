import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

# Hinton-style distillation: soft targets at temperature T plus the usual cross entropy on hard labels

T = 4.0
ALPHA = 0.7


def make_moons_like(n, noise=0.15):
    t = torch.rand(n) * torch.pi
    y = torch.randint(0, 3, (n,))
    cx = torch.tensor([0.0, 1.0, 2.0])[y]
    flip = torch.where(y == 1, -1.0, 1.0)
    x = torch.stack([cx + t.cos(), flip * t.sin() + 0.3 * (y == 1)], dim=1)
    return (x + noise * torch.randn_like(x) - torch.tensor([1.0, 0.2])), y


def fit_teacher(steps=120):
    net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(steps):
        x, y = make_moons_like(64)
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    return net


def main():
    torch.manual_seed(11)
    teacher = copy.deepcopy(fit_teacher()).eval()
    for p in teacher.parameters():
        p.requires_grad = False

    student = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 3))
    opt = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    kld = nn.KLDivLoss(reduction="batchmean")

    for step in range(1, 151):
        x, y = make_moons_like(64)
        s_logits = student(x)
        t_prob = F.softmax(teacher(x) / T, dim=1)
        soft = kld(F.log_softmax(s_logits / T, dim=1), t_prob) * T * T
        hard = F.cross_entropy(s_logits, y)
        loss = ALPHA * soft + (1 - ALPHA) * hard
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step in (1, 50, 100, 150):
            print(f"{step:4d} soft {soft.item():.4f} hard {hard.item():.4f}")

    student.eval()
    with torch.no_grad():
        x, y = make_moons_like(500)
        print("agreement", (student(x).argmax(1) == teacher(x).argmax(1)).float().mean().item())


main()
