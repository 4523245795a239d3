import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def stripes(n):
    """12x12 gray images in [0, 1]: horizontal (0) or vertical (1) stripes"""
    y = torch.randint(0, 2, (n,))
    wave = 0.5 + 0.4 * torch.sin(torch.arange(12) * 1.3 + 6.28 * torch.rand(n, 1))
    img = torch.where(y[:, None, None] == 1, wave[:, None, :].expand(n, 12, 12), wave[:, :, None].expand(n, 12, 12))
    return (img + 0.1 * torch.randn(n, 12, 12)).clamp(0, 1).unsqueeze(1), y


class StripeSet(Dataset):
    def __init__(self, images, labels, mean=0.5, std=0.3):
        self.images, self.labels = images, labels
        self.mean, self.std = mean, std

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        image.sub_(self.mean).div_(self.std)  # ORIGIN
        return image, self.labels[index]


torch.manual_seed(17)
train_ds = StripeSet(*stripes(200))
test_ds = StripeSet(*stripes(80))
train_loader = DataLoader(train_ds, batch_size=20, shuffle=True)

cnn = nn.Sequential(
    nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(6 * 5 * 5, 2),
)
opt = torch.optim.SGD(cnn.parameters(), lr=0.02, momentum=0.9)
for epoch in range(3):
    for images, labels in train_loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(cnn(images), labels)
        loss.backward()
        opt.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")

with torch.no_grad():
    images, labels = next(iter(DataLoader(test_ds, batch_size=80)))
    print("test accuracy", (cnn(images).argmax(1) == labels).float().mean().item())
