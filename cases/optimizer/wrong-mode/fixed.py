import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(12)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.3),
        )
        self.cls = nn.Linear(64, 3)

    def forward(self, x):
        return self.cls(self.body(x))


W = torch.randn(16, 3)


def split(n):
    x = torch.randn(n, 16)
    return TensorDataset(x, (x @ W + torch.randn(n, 3)).argmax(1))


train_loader = DataLoader(split(384), batch_size=32, shuffle=True)
val_loader = DataLoader(split(128), batch_size=64)


def validate(model):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in val_loader:
            total += nn.functional.cross_entropy(model(x), y).item()
    return total / len(val_loader)


model = Net()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(5):
    model.train()
    total = 0.0
    for x, y in train_loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch}: train {total / len(train_loader):.4f}  val {validate(model):.4f}")
