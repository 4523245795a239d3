import torch
import torch.nn as nn
import torch.nn.functional as F

# 24x24 crops of solder joints: 0 good, 1 bridge, 2 void


class Block(nn.Module):
    def __init__(self, dim, expand=2):
        super().__init__()
        self.spatial = nn.Conv2d(dim, dim, 5, padding=2, groups=dim)
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Conv2d(dim, expand * dim, 1)
        self.down = nn.Conv2d(expand * dim, dim, 1)

    def forward(self, x):
        h = self.norm(self.spatial(x))  # ORIGIN
        return x + self.down(F.gelu(self.up(h)))


def build(dim=24, depth=2):
    stem = nn.Conv2d(1, dim, 3, padding=1)
    return nn.Sequential(stem, *[Block(dim) for _ in range(depth)], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(dim, 3))


def crops(n, gen):
    kind = torch.randint(3, (n,), generator=gen)
    img = 0.3 * torch.randn(n, 1, 24, 24, generator=gen)
    img[kind == 1, :, 10:14, :] += 1.0
    img[kind == 2, :, 8:16, 8:16] -= 1.0
    return img, kind


gen = torch.Generator().manual_seed(4)
torch.manual_seed(4)
net = build()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
for it in range(15):
    img, kind = crops(24, gen)
    loss = F.cross_entropy(net(img), kind)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 5 == 0:
        print(it, round(loss.item(), 3))
