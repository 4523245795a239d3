import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class ResidualMLP(nn.Module):
    def __init__(self, d_in, width, depth, d_out):
        super().__init__()
        self.inp = nn.Linear(d_in, width)
        self.blocks = [nn.Linear(width, width) for _ in range(depth)]  # ORIGIN
        self.out = nn.Linear(width, d_out)

    def forward(self, x):
        x = torch.relu(self.inp(x))
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return self.out(x)


torch.manual_seed(0)
X = torch.randn(600, 6)
target = torch.sin(X[:, :1] * X[:, 1:2]) + 0.5 * X[:, 2:3] - 0.3 * X[:, 3:4].abs()
train_set, val_set = random_split(TensorDataset(X, target), [480, 120])
train_dl = DataLoader(train_set, batch_size=40, shuffle=True)
val_dl = DataLoader(val_set, batch_size=120)

model = ResidualMLP(6, 32, depth=3, d_out=1)
print("trainable parameters:", sum(p.numel() for p in model.parameters()))
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
loss_fn = nn.MSELoss()

for epoch in range(5):
    model.train()
    tr = 0.0
    for xb, yb in train_dl:
        opt.zero_grad()
        loss = loss_fn(model(xb), yb)
        loss.backward()
        opt.step()
        tr += loss.item() / len(train_dl)
    model.eval()
    with torch.no_grad():
        va = sum(loss_fn(model(xb), yb).item() for xb, yb in val_dl) / len(val_dl)
    print(f"epoch {epoch}: train {tr:.4f} val {va:.4f}")
