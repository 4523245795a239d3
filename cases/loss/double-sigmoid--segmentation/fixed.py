import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(2)
SIZE = 16


def disc_batches(batch, count):
    yy, xx = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    for _ in range(count):
        cy, cx = torch.randint(4, 12, (2, batch, 1, 1))
        r = torch.randint(2, 5, (batch, 1, 1))
        mask = ((yy - cy) ** 2 + (xx - cx) ** 2 <= r ** 2).float().unsqueeze(1)
        image = 2 * mask - 0.5 + 0.4 * torch.randn(batch, 1, SIZE, SIZE)
        yield image, mask


seg = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(8, 8, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(8, 1, 1),
)
optimizer = torch.optim.Adam(seg.parameters(), lr=1e-2)

for it, (image, mask) in enumerate(disc_batches(16, 50)):
    out = seg(image)
    loss = F.binary_cross_entropy_with_logits(out, mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 10 == 9:
        print(f"iter {it + 1}: loss {loss.item():.4f}")
