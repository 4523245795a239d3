from torch import nn


class StripeNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.body = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(16, n_classes)

    def forward(self, x):
        x = self.stem(x)
        x = self.body(x).relu()
        return self.head(self.pool(x).flatten(1))
