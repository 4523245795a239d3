import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)

# synthetic house prices, everything standardised
X = torch.randn(512, 6)
w = torch.tensor([1.5, -0.8, 0.0, 0.4, 2.0, -1.1])
y = X @ w + 0.5 * X[:, 0] * X[:, 3] + 0.1 * torch.randn(512)
y = (y - y.mean()) / y.std()

loader = DataLoader(TensorDataset(X, y), batch_size=32, shuffle=True)

model = nn.Sequential(
    nn.Linear(6, 32),
    nn.ReLU(),
    nn.Linear(32, 1),
)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
loss_fn = nn.MSELoss()

for epoch in range(4):
    total = 0.0
    for xb, yb in loader:
        pred = model(xb)
        loss = loss_fn(pred, yb)  # ORIGIN
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
    print(f"epoch {epoch}: mse {total / len(X):.4f}")
