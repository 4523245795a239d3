import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)

# transforms are applied one after the other to a [3, H, W] float image
train_tf = [
    lambda img: img.flip(-1) if torch.rand(()) < 0.5 else img,
    lambda img: img.mean(dim=0, keepdim=True),  # ORIGIN
    lambda img: (img - 0.5) / 0.25,
]


class XRays(Dataset):
    def __init__(self, n, tf):
        g = torch.Generator().manual_seed(11)
        self.pixels = torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=g)
        self.findings = torch.randint(0, 2, (n,), generator=g)
        self.tf = tf

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, i):
        img = self.pixels[i].float() / 255
        for t in self.tf:
            img = t(img)
        return img, self.findings[i]


class Stem(nn.Module):
    """Same first block as the pretrained backbone we will load later."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, kernel_size=3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


model = nn.Sequential(Stem(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 2))
loader = DataLoader(XRays(96, train_tf), batch_size=16, shuffle=True)
opt = torch.optim.SGD(model.parameters(), lr=0.05)

seen, correct = 0, 0
for img, finding in loader:
    out = model(img)
    loss = nn.functional.cross_entropy(out, finding)
    opt.zero_grad()
    loss.backward()
    opt.step()
    seen += len(finding)
    correct += (out.argmax(1) == finding).sum().item()
print(f"train accuracy {correct / seen:.2f}")
