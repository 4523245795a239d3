import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(0)
n = 600
age = rng.uniform(18, 80, n)
income = rng.normal(42000, 9000, n)
debt = rng.gamma(2.0, 4000, n)
tenure = rng.uniform(0, 240, n)
score = 0.9 * (income - 42000) / 9000 - 0.8 * (debt - 8000) / 5600 + 0.5 * (age - 49) / 18
defaulted = (score + 0.3 * rng.normal(size=n) < 0).astype(np.float32)

table = np.column_stack([age, income, debt, tenure])
X = torch.tensor(table, dtype=torch.float32)
y = torch.from_numpy(defaulted)


class CreditNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(4, 32), nn.Tanh())  # ORIGIN
        self.logit = nn.Linear(32, 1)

    def forward(self, x):
        return self.logit(self.hidden(x)).squeeze(1)


torch.manual_seed(0)
model = CreditNet()
loader = DataLoader(TensorDataset(X, y), batch_size=40, shuffle=True)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
bce = nn.BCEWithLogitsLoss()
for epoch in range(5):
    losses = []
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = bce(model(xb), yb)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"epoch {epoch}: {np.mean(losses):.4f}")
