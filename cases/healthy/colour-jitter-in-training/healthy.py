import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Jitter:
    """brightness, contrast and a random erased square - training only"""

    def __call__(self, img):
        img = img * (0.6 + 0.8 * torch.rand(())) + 0.6 * torch.randn(3, 1, 1)
        top, left = torch.randint(0, 8, (2,)).tolist()
        img = img.clone()
        img[:, top : top + 4, left : left + 4] = 0.0
        return img + 0.2 * torch.randn_like(img)


class Flags(Dataset):
    def __init__(self, n, seed, transform=None):
        g = torch.Generator().manual_seed(seed)
        self.label = torch.randint(0, 3, (n,), generator=g)
        self.image = torch.randn(n, 3, 12, 12, generator=g) * 0.3
        for img, kind in zip(self.image, self.label.tolist()):
            if kind == 0:
                img[:, :, ::4] += 1.5
            elif kind == 1:
                img[:, ::4, :] += 1.5
            else:
                img[:, ::4, ::4] += 1.5
        mean, std = 0.32, 0.7
        self.image = (self.image - mean) / std
        self.transform = transform

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        img = self.image[i]
        return (self.transform(img) if self.transform else img), self.label[i]


torch.manual_seed(0)
train = DataLoader(Flags(360, 0, Jitter()), batch_size=24, shuffle=True)
valid = DataLoader(Flags(90, 1), batch_size=45)
model = nn.Sequential(
    nn.Conv2d(3, 12, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Dropout(0.1), nn.Linear(108, 3)
)
opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)
for epoch in range(4):
    model.train()
    for x, y in train:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        acc = sum((model(x).argmax(1) == y).sum().item() for x, y in valid) / 90
    print(f"epoch {epoch}: train loss {loss.item():.4f}, valid accuracy {acc:.3f}")
