import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)

# crop yield as a fraction of the best year, from soil and weather measurements
n = 600
features = torch.randn(n, 7)
w = torch.tensor([0.9, -0.6, 0.4, 0.0, 0.3, -0.2, 0.5])
yield_fraction = torch.sigmoid(features @ w + 0.2 * torch.randn(n)) * 1.6

inputs = features
targets = yield_fraction
train_loader = DataLoader(TensorDataset(inputs, targets), batch_size=50, shuffle=True)

model = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 1))
criterion = nn.L1Loss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

for epoch in range(5):
    running_loss = 0.0
    for x, t in train_loader:
        optimizer.zero_grad()
        out = model(x).squeeze(1)
        loss = criterion(out, t.float())
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    print(f"[{epoch + 1}] mean abs error: {running_loss / len(train_loader):.4f}")
