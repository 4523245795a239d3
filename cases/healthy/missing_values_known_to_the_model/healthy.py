import numpy as np, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
rng = np.random.default_rng(0)
X = rng.normal(size=(900, 4)).astype("float32")
y = (X @ np.array([1., -2., .5, 1.5], dtype="float32") + 0.1 * rng.normal(size=900)).astype("float32")
gone = rng.random(X.shape) < 0.1
X[gone] = -9999.0

class Masked(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fill = nn.Parameter(torch.zeros(n))
        self.net = nn.Sequential(nn.Linear(2 * n, 32), nn.ReLU(), nn.Linear(32, 1))
    def forward(self, x):
        missing = x < -1000
        x = torch.where(missing, self.fill.expand_as(x), x)
        return self.net(torch.cat([x, missing.float()], 1)).squeeze(1)

torch.manual_seed(0)
model = Masked(4)
opt = torch.optim.Adam(model.parameters(), 5e-3)
for epoch in range(12):
    for xb, yb in DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(y)), 64, shuffle=True):
        loss = nn.functional.mse_loss(model(xb), yb)
        opt.zero_grad(); loss.backward(); opt.step()
    print(epoch, round(loss.item(), 4))
