"""Grid detector: objectness on every cell, box size only on the cells with an object."""
import torch
from torch import nn
import torch.nn.functional as F


class GridHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, padding=1)
        self.out = nn.Conv2d(8, 3, 1)

    def forward(self, image):
        y = self.out(F.relu(self.stem(image)))
        return y[:, 0], y[:, 1:].movedim(1, -1)


def frames(n, seed):
    """Every frame: 4 pictures of 6x6 cells. Traffic thins out towards the evening."""
    gen = torch.Generator().manual_seed(seed)
    for t in range(n):
        density = 0.12 if t < n // 2 else 0.004
        occupied = torch.rand(4, 6, 6, generator=gen) < density
        image = occupied.float() + 0.1 * torch.randn(4, 6, 6, generator=gen)
        size = torch.rand(4, 6, 6, 2, generator=gen)
        yield image.unsqueeze(1), occupied, size


def detection_loss(objectness, box, occupied, size):
    cls = F.binary_cross_entropy_with_logits(objectness, occupied.float())
    error = (box - size).abs().sum(dim=-1)
    reg = error[occupied].mean()  # ORIGIN
    return cls + 0.5 * reg


torch.manual_seed(3)
head = GridHead()
optim = torch.optim.SGD(head.parameters(), lr=0.1)
skipped = 0
for t, (image, occupied, size) in enumerate(frames(30, seed=1)):
    optim.zero_grad()
    loss = detection_loss(*head(image), occupied, size)
    if torch.isnan(loss):
        skipped += 1
        continue
    loss.backward()
    optim.step()
    print(f"frame {t}: {loss.item():.3f}")
print("skipped", skipped)
