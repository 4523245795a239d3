import numpy as np
import torch

# Boston-like toy table: rooms, tax (per 100), age (decades)
torch.manual_seed(0)
rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(6, 0.7, 200), rng.uniform(2, 7, 200), rng.uniform(0, 10, 200)])
y = X @ np.array([9.0, -1.5, -0.6]) - 20 + rng.normal(0, 1, 200)

X = torch.from_numpy(X).float()
y = torch.from_numpy(y).float().unsqueeze(1)
X = (X - X.mean(0)) / X.std(0)

model = torch.nn.Linear(3, 1)
torch.nn.init.zeros_(model.weight)
criterion = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(20):
    optimizer.zero_grad()
    loss = criterion(model(X), y)
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch + 1}: loss = {loss.item():.6g}")

print("weights:", model.weight.data.tolist(), "bias:", model.bias.item())
