import torch
from torch import nn

torch.manual_seed(61)

BOXES, CLASSES = 2, 3


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 12, 3, 2, 1), nn.ReLU())
        self.classes = nn.Conv2d(12, BOXES * CLASSES, 1)

    def forward(self, images):
        features = self.stem(images)
        n, _, h, w = features.shape
        return self.classes(features).view(n, h * w * BOXES, CLASSES)  # ORIGIN


detector = Detector()
optimizer = torch.optim.SGD(detector.parameters(), lr=0.05, momentum=0.9)
for step in range(12):
    images = torch.randn(4, 3, 32, 32)
    labels = torch.randint(0, CLASSES, (4, 8 * 8 * BOXES))
    loss = nn.functional.cross_entropy(detector(images).flatten(0, 1), labels.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
