"""A trainer with hooks. What unfreezes the body runs before each validation."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(48, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)


class Meter:
    """Keeps sums on the device, so that nothing waits for it."""

    def __init__(self):
        self.total = torch.zeros(())
        self.count = 0

    def update(self, value, count):
        self.total += value * count
        self.count += count


def unfreeze(model):
    for weight in model.parameters():
        weight.requires_grad_(True)
    return model


class Trainer:
    def __init__(self, model, before_validation=()):
        self.model, self.before_validation = model, before_validation
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
        self.meters = []

    def train_epoch(self, loader):
        self.model.train()
        for x, y in loader:
            loss = nn.functional.smooth_l1_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.inference_mode()
    def validate(self, loader):
        self.model.eval()
        for hook in self.before_validation:
            hook(self.model)
        meter = Meter()
        for x, y in loader:
            meter.update(nn.functional.smooth_l1_loss(self.model(x), y), len(x))
        self.meters.append(meter)

    def fit(self, train, validation, epochs):
        for _ in range(epochs):
            self.train_epoch(train)
            self.validate(validation)


x = torch.randn(360, 6)
y = x[:, 0] * x[:, 1] + 0.1 * torch.randn(360)
train = DataLoader(TensorDataset(x[:280], y[:280]), batch_size=20, shuffle=True)
validation = DataLoader(TensorDataset(x[280:], y[280:]), batch_size=20)
trainer = Trainer(Regressor(), before_validation=[unfreeze])
trainer.fit(train, validation, epochs=5)
print(len(trainer.meters), "validations")
