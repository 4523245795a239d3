"""A small framework that hands every step a closure."""

from abc import ABC, abstractmethod

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)


class Task(nn.Module, ABC):
    @abstractmethod
    def training_step(self, batch): ...

    @abstractmethod
    def configure_optimizer(self): ...


class Loop:
    def __init__(self, epochs):
        self.epochs = epochs

    def fit(self, task, loader):
        optimizer = task.configure_optimizer()
        for epoch in range(self.epochs):
            total = 0.0
            for batch in loader:
                total += float(optimizer.step(lambda batch=batch: self.evaluate(task, optimizer, batch)))
            print(epoch, round(total / len(loader), 4))

    def evaluate(self, task, optimizer, batch):
        loss = task.training_step(batch)
        optimizer.zero_grad()
        loss.backward()
        return loss.detach()


class Wines(Task):
    def __init__(self, columns, kinds):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(columns, 24), nn.ReLU(), nn.Linear(24, kinds))
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, x):
        return self.body(x)

    def training_step(self, batch):
        x, y = batch
        return self.criterion(self(x), y)

    def configure_optimizer(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


x = torch.randn(300, 8)
kinds = x[:, :3].argmax(1)
Loop(epochs=4).fit(Wines(8, 3), DataLoader(TensorDataset(x, kinds), batch_size=20, shuffle=True))
