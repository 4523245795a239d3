"""Transfer learning in stages: pretrain, linear probe on a frozen backbone, then unfreeze the last block."""
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.low = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.high = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(2))

    def forward(self, x):
        return self.high(self.low(x)).flatten(1)


class Classifier(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(64, classes)

    def train(self, mode=True):
        super().train(mode)
        for block in self.backbone.children():          # frozen blocks keep their batch-norm statistics
            if not any(p.requires_grad for p in block.parameters()):
                block.eval()
        return self

    def forward(self, x):
        return self.head(self.backbone(x))


def blobs(n, corners):
    """A bright patch in one of `corners` corners."""
    y = torch.randint(0, corners, (n,))
    x = 0.3 * torch.randn(n, 1, 12, 12)
    for i, c in enumerate(y.tolist()):
        r, q = divmod(c, 2)
        x[i, 0, 6 * r + 1 : 6 * r + 5, 6 * q + 1 : 6 * q + 5] += 1.0
    return x, y


def stage(name, model, groups, corners, steps):
    opt = torch.optim.Adam(groups)                       # each stage has its own optimizer, by design
    model.train()
    for _ in range(steps):
        x, y = blobs(32, corners)
        loss = cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        x, y = blobs(128, corners)
        acc = (model(x).argmax(1) == y).float().mean().item()
    print(f"{name:10s} loss {loss.item():.3f} acc {acc:.2f}")


torch.manual_seed(4)
backbone = Backbone()
first = Classifier(backbone, 2)
stage("pretrain", first, [{"params": first.parameters(), "lr": 3e-3}], 2, 25)

backbone.requires_grad_(False)
model = Classifier(backbone, 4)
frozen = [p.clone() for p in backbone.parameters()]
stage("probe", model, [{"params": [p for p in model.parameters() if p.requires_grad], "lr": 1e-2}], 4, 25)
assert all(torch.equal(a, b) for a, b in zip(frozen, backbone.parameters()))

backbone.high.requires_grad_(True)
stage("fine-tune", model, [{"params": model.head.parameters(), "lr": 3e-3}, {"params": backbone.high.parameters(), "lr": 1e-3}], 4, 25)
