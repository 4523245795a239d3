import torch
from torch import nn


class Learner:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr)
        self.loss_fn = nn.HuberLoss()

    def predict(self, x):
        with torch.no_grad():  # ORIGIN
            out = self.model(x)
        return out.squeeze(-1)

    def evaluate(self, batches):
        self.model.eval()
        errors = [(self.predict(x) - y).abs().mean() for x, y in batches]
        return torch.stack(errors).mean().item()

    def fit(self, batches, epochs):
        self.model.train()
        for _ in range(epochs):
            for x, y in batches:
                loss = self.loss_fn(self.predict(x), y)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()


def make_batches(n, size=20):
    made = []
    for _ in range(n):
        x = torch.rand(size, 3) * 2 - 1
        made.append((x, x[:, 0] * x[:, 1] + x[:, 2]))
    return made


torch.manual_seed(14)
train_batches, val_batches = make_batches(10), make_batches(3)
learner = Learner(nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 1)), lr=0.1)
print(f"before: {learner.evaluate(val_batches):.3f}")
learner.fit(train_batches, epochs=3)
print(f"after:  {learner.evaluate(val_batches):.3f}")
