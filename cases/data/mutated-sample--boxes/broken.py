"""Finds the one bright object in a 16x16 frame."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 16


class Frames(Dataset):
    def __init__(self, n):
        self.images = 0.2 * torch.randn(n, 1, SIZE, SIZE)
        self.targets = []
        for i in range(n):
            x, y = torch.randint(0, SIZE - 6, (2,)).tolist()
            w, h = torch.randint(3, 7, (2,)).tolist()
            self.images[i, 0, y:y + h, x:x + w] += 1.0
            self.targets.append({"boxes": torch.tensor([[x, y, x + w, y + h]], dtype=torch.float32), "image_id": i})

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        target = self.targets[i]
        target["boxes"] /= SIZE  # ORIGIN
        return self.images[i], target


def collate(samples):
    images, targets = zip(*samples)
    return torch.stack(images), list(targets)


class Locator(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        )
        self.box = nn.Linear(16 * 16, 4)

    def forward(self, images):
        return self.box(self.body(images))


def train(epochs=5):
    torch.manual_seed(23)
    loader = DataLoader(Frames(128), batch_size=16, shuffle=True, collate_fn=collate)
    net = Locator()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(epochs):
        meter = []
        for images, targets in loader:
            wanted = torch.cat([t["boxes"] for t in targets])
            loss = nn.functional.l1_loss(net(images), wanted)
            opt.zero_grad()
            loss.backward()
            opt.step()
            meter.append(loss.item())
        print(f"epoch {epoch}: box error {sum(meter) / len(meter):.4f}")


if __name__ == "__main__":
    train()
