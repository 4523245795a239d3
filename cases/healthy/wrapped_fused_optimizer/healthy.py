"""A trainer that hands its optimizer around in a wrapper, as accelerate does: the schedule knows the wrapper, the step is a fused one."""

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset


class GuardedOptimizer(Optimizer):
    """Steps only when the gradients of a whole batch are there."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.ready = True

    @property
    def state(self):
        return self.optimizer.state

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    @property
    def defaults(self):
        return self.optimizer.defaults

    def zero_grad(self, set_to_none=True):
        if self.ready:
            self.optimizer.zero_grad(set_to_none)

    def step(self, closure=None):
        if self.ready:
            self.optimizer.step(closure)


class Trainer:
    def __init__(self, model, loader, epochs):
        self.model, self.loader, self.epochs = model, loader, epochs
        self.optimizer = GuardedOptimizer(torch.optim.AdamW(model.parameters(), lr=5e-3, fused=True))
        total = epochs * len(loader)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: max(0.0, 1 - step / total))

    def training_step(self, x, y):
        self.model.train()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        return loss.detach()

    def train(self):
        for epoch in range(self.epochs):
            total = 0.0
            for x, y in self.loader:
                total += self.training_step(x, y)
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.schedule.step()
                self.model.zero_grad()
            print(f"epoch {epoch}: {total / len(self.loader):.4f}")


torch.manual_seed(0)
x = torch.randn(512, 12)
y = (x[:, :4].sum(1) > 0).long() + (x[:, 4] > 1).long()
model = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 3))
Trainer(model, DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True), epochs=4).train()
