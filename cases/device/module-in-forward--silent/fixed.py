import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class DigitNet(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.classifier = nn.Linear(16 * 3 * 3, num_classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return self.classifier(x)


def quadrant_images(n):
    """a bright square in one of the four corners"""
    label = torch.randint(0, 4, (n,))
    img = torch.randn(n, 1, 12, 12) * 0.5
    for i, q in enumerate(label.tolist()):
        r, c = 6 * (q // 2), 6 * (q % 2)
        img[i, 0, r + 1:r + 5, c + 1:c + 5] += 1.0
    return img, label


def run_epoch(model, loader, optimizer):
    total, correct, count = 0.0, 0, 0
    for img, label in loader:
        optimizer.zero_grad()
        logits = model(img)
        loss = F.cross_entropy(logits, label)
        loss.backward()
        optimizer.step()
        total += loss.item() * label.numel()
        correct += (logits.argmax(1) == label).sum().item()
        count += label.numel()
    return total / count, correct / count


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*quadrant_images(320)), batch_size=32, shuffle=True)
    model = DigitNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(5):
        loss, acc = run_epoch(model, loader, optimizer)
        print(f"epoch {epoch}  loss {loss:.3f}  acc {acc:.3f}")
