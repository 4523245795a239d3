import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Orders(Dataset):
    """Delivery time in days, from distance, weight and number of stops."""

    def __init__(self, distance, weight, stops, days):
        self.features = np.stack([distance, weight, stops], axis=1).astype(np.float32)
        self.days = np.asarray(days, dtype=np.float32)

    def __len__(self):
        return len(self.days)

    def __getitem__(self, index):
        return torch.from_numpy(self.features[index]), torch.tensor(self.days[index], dtype=torch.float32)


rng = np.random.default_rng(12)
n = 360
distance, weight, stops = rng.normal(size=(3, n))
days = 2.5 + 0.9 * distance + 0.3 * weight * stops + rng.normal(0, 0.1, n)

torch.manual_seed(12)
orders = Orders(distance, weight, stops, days)
loader = DataLoader(orders, batch_size=36, shuffle=True)
net = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.SiLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
criterion = torch.nn.MSELoss()
for epoch in range(3):
    for features, target in loader:
        loss = criterion(net(features)[:, 0], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
