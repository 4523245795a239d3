"""Class-incremental learning: one class after the other, a few epochs each, with some examples of earlier classes kept."""
import torch
from torch import nn

torch.manual_seed(13)
CLASSES, PER_CLASS = 4, 64
centres = 2 * torch.randn(CLASSES, 6)
examples = [centre + 0.5 * torch.randn(PER_CLASS, 6) for centre in centres]
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, CLASSES))
opt = torch.optim.SGD(net.parameters(), lr=0.02)
memory_x, memory_y = [], []

for new in range(CLASSES):
    labels = torch.full((PER_CLASS,), new)
    for epoch in range(3):
        for i in range(0, PER_CLASS, 16):
            x, y = examples[new][i:i + 16], labels[i:i + 16]
            loss = nn.functional.cross_entropy(net(x), y)
            if memory_x:
                loss = loss + nn.functional.cross_entropy(net(torch.cat(memory_x)), torch.cat(memory_y))
            opt.zero_grad()
            loss.backward()
            opt.step()
    memory_x.append(examples[new][:16])
    memory_y.append(labels[:16])
    seen = torch.cat(examples[:new + 1])
    truth = torch.arange(new + 1).repeat_interleave(PER_CLASS)
    print(f"after class {new}: {(net(seen).argmax(1) == truth).float().mean().item():.3f}")
