import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

random.seed(9)
torch.manual_seed(9)

# crosses and circles, 24x24
n = 320
yy, xx = torch.meshgrid(torch.linspace(-1, 1, 24), torch.linspace(-1, 1, 24), indexing="ij")
circle = ((xx**2 + yy**2).sqrt() - 0.6).abs() < 0.15
cross = (xx.abs() < 0.15) | (yy.abs() < 0.15)
label = torch.randint(0, 2, (n,))
image = torch.stack([circle if k else cross for k in label.tolist()]).float()
image = (image - image.mean()) / image.std() + 0.4 * torch.randn(n, 24, 24)


class MultiScale:
    """Every batch gets its own resolution, as YOLO does; the last batch may also be smaller."""

    sizes = (16, 20, 24, 28)

    def __call__(self, samples):
        x = torch.stack([s[0] for s in samples]).unsqueeze(1)
        size = random.choice(self.sizes)
        x = F.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
        return x, torch.stack([s[1] for s in samples])


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.fc = nn.Linear(16 * (1 + 4), 2)

    def forward(self, x):
        h = F.relu(self.c2(F.relu(self.c1(x))))
        pools = [F.adaptive_avg_pool2d(h, k).flatten(1) for k in (1, 2)]
        return self.fc(torch.cat(pools, 1))


loader = DataLoader(TensorDataset(image, label), batch_size=24, shuffle=True, collate_fn=MultiScale())
net = Pyramid()
opt = torch.optim.Adam(net.parameters(), lr=4e-3)
for epoch in range(3):
    good = 0
    for x, y in loader:
        out = net(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        good += (out.argmax(1) == y).sum().item()
    print(f"epoch {epoch}: accuracy {good / n:.3f}, last resolution {x.shape[-1]}")
