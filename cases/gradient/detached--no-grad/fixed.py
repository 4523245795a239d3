import torch
import torch.nn as nn


class FineTuner(nn.Module):
    def __init__(self, encoder, feat, classes):
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(feat, classes)

    def forward(self, images):
        feats = self.encoder(images)
        return self.classifier(self.dropout(feats))


def build():
    encoder = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
    )
    model = FineTuner(encoder, feat=64, classes=4)
    optimizer = torch.optim.AdamW([
        {"params": model.encoder.parameters(), "lr": 3e-3},
        {"params": model.classifier.parameters(), "lr": 1e-2},
    ])
    return model, optimizer


def quadrant_blobs(n):
    labels = torch.randint(0, 4, (n,))
    img = 0.5 * torch.randn(n, 1, 12, 12)
    for k, lab in enumerate(labels.tolist()):
        r, c = divmod(lab, 2)
        img[k, 0, 6 * r + 1:6 * r + 5, 6 * c + 1:6 * c + 5] += 1.0
    return img, labels


torch.manual_seed(19)
model, optimizer = build()
criterion = nn.CrossEntropyLoss()
images, labels = quadrant_blobs(384)
for epoch in range(4):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(images)).split(32):
        optimizer.zero_grad()
        loss = criterion(model(images[idx]), labels[idx])
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    print(f"epoch {epoch + 1}/4 loss {total / len(images):.4f}")
