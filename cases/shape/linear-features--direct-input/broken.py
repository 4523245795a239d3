import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
rng = np.random.default_rng(1)
N = 500

# ---------------------------------------------------------------- data
houses = {
    "area": rng.normal(120, 30, N),
    "rooms": rng.integers(1, 7, N).astype(float),
    "age": rng.uniform(0, 90, N),
    "distance": rng.exponential(5.0, N),
    "floor": rng.integers(0, 12, N).astype(float),
}
houses["price"] = 2.1 * houses["area"] - 0.8 * houses["age"] - 3 * houses["distance"] + rng.normal(0, 5, N)

for name, col in houses.items():
    houses[name] = (col - col.mean()) / col.std()

features = np.stack([col for name, col in houses.items()], axis=1).astype(np.float32)  # ORIGIN
price = houses["price"].astype(np.float32).reshape(-1, 1)

train_set = TensorDataset(torch.from_numpy(features[:400]), torch.from_numpy(price[:400]))
train_loader = DataLoader(train_set, batch_size=50, shuffle=True)

# --------------------------------------------------------------- model
regressor = torch.nn.Sequential(
    torch.nn.Linear(5, 32),
    torch.nn.Tanh(),
    torch.nn.Linear(32, 1),
)
optimizer = torch.optim.Adam(regressor.parameters(), lr=5e-3)

# ------------------------------------------------------------ training
for epoch in range(3):
    total = 0.0
    for xb, yb in train_loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(regressor(xb), yb)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
    print("epoch", epoch, "mse", total / len(train_set))
