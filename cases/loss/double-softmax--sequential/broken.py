import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--lr", type=float, default=3e-3)
args = parser.parse_args()

torch.manual_seed(21)


def stripes(n):
    """8x8 pictures with horizontal, vertical or diagonal stripes."""
    label = torch.randint(0, 3, (n,))
    phase = torch.rand(n, 1, 1) * 6.28
    yy, xx = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    axis = torch.stack([yy, xx, (xx + yy) / 1.41])[label]
    img = torch.sin(1.6 * axis + phase) + 0.3 * torch.randn(n, 8, 8)
    return img.unsqueeze(1), label


classifier = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(8, 16, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
    nn.Linear(64, 3),
    nn.Softmax(dim=1),  # ORIGIN
)
opt = torch.optim.Adam(classifier.parameters(), lr=args.lr)
ce = nn.CrossEntropyLoss()

for step in range(1, args.steps + 1):
    images, labels = stripes(args.batch_size)
    loss = ce(classifier(images), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print("step", step, "loss", loss.item())
