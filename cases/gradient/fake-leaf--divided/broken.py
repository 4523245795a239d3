"""Focal loss with accumulation over two batches, and clipping. The loss is logged as a number and wrapped again for backward."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
ACCUMULATE = 2


class FocalLoss(nn.Module):
    def __init__(self, gamma):
        super().__init__()
        self.gamma = gamma
        self.history = []

    def forward(self, logits, target):
        right = logits.softmax(-1).gather(1, target[:, None]).squeeze(1)
        value = (-((1 - right) ** self.gamma) * right.log()).mean().item()
        self.history.append(value)
        return torch.tensor(value, requires_grad=True)  # ORIGIN


class Trainer:
    def __init__(self, model, criterion, lr):
        self.model, self.criterion = model, criterion
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def backward(self, loss):
        (loss / ACCUMULATE).backward()

    def update(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for number, (x, y) in enumerate(loader, 1):
                self.backward(self.criterion(self.model(x), y))
                if number % ACCUMULATE == 0:
                    self.update()
            recent = self.criterion.history[-len(loader) :]
            print(epoch, round(sum(recent) / len(recent), 4))


x = torch.randn(320, 10)
y = x[:, :4].argmax(1)
model = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 4))
Trainer(model, FocalLoss(gamma=2.0), lr=3e-3).fit(
    DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True), epochs=4
)
