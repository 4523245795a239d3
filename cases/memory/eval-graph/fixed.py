import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(32, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4)
        )

    def forward(self, x):
        return self.net(x)


W = torch.randn(32, 4)


def make(n):
    x = torch.randn(n, 32)
    return TensorDataset(x, (x @ W).argmax(1))


train_loader = DataLoader(make(1024), batch_size=64, shuffle=True)
val_loader = DataLoader(make(4096), batch_size=128)


@torch.no_grad()
def evaluate(model):
    model.eval()
    preds, targets = [], []
    for x, y in val_loader:
        preds.append(model(x))
        targets.append(y)
    preds, targets = torch.cat(preds), torch.cat(targets)
    loss = nn.functional.cross_entropy(preds, targets).item()
    acc = (preds.argmax(1) == targets).float().mean().item()
    return loss, acc


model = MLP()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(3):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    val_loss, val_acc = evaluate(model)
    print(f"epoch {epoch}  val loss {val_loss:.4f}  val acc {val_acc:.3f}")
