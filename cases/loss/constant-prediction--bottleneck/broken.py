import torch
import torch.nn as nn
import torch.nn.functional as F


class TextureNet(nn.Module):
    """conv features, one descriptor per image, linear classifier on top"""

    def __init__(self, n_classes=3, width=12):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 5, padding=2)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.InstanceNorm2d(width)
        self.classify = nn.Linear(width, n_classes)

    def forward(self, img):
        h = F.relu(self.conv1(img))
        h = F.relu(self.conv2(h))
        descriptor = self.norm(h).mean(dim=(2, 3))  # ORIGIN
        return self.classify(descriptor)


def textures(n):
    """stripes along x, stripes along y, checkerboard; random phase and noise"""
    kind = torch.randint(0, 3, (n,))
    t = torch.arange(12).float()
    phase = 6.28 * torch.rand(2, n, 1)
    sx = torch.sin(1.6 * t + phase[0])[:, None, :].expand(n, 12, 12)
    sy = torch.sin(1.6 * t + phase[1])[:, :, None].expand(n, 12, 12)
    bank = torch.stack([sx, sy, sx * sy * 1.4])
    img = bank[kind, torch.arange(n)] + 0.2 * torch.randn(n, 12, 12)
    return img.unsqueeze(1), kind


torch.manual_seed(3)
net = TextureNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(60):
    img, kind = textures(32)
    logits = net(img)
    loss = F.cross_entropy(logits, kind)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 9:
        acc = (logits.argmax(1) == kind).float().mean()
        print(f"step {step + 1} loss {loss.item():.4f} acc {acc.item():.2f}")
