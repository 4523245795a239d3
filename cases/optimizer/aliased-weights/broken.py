import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def dataset(n, w):
    x = torch.randn(n, 12)
    y = (x @ w + 1.0 * torch.randn(n) > 0).float()
    return x, y


def train(model, train_loader, val, epochs=8):
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    bce = nn.BCEWithLogitsLoss()
    best_val, best_state = float("inf"), None
    for epoch in range(epochs):
        model.train()
        running = 0.0
        for x, y in train_loader:
            opt.zero_grad()
            loss = bce(model(x).squeeze(1), y)
            loss.backward()
            opt.step()
            running += loss.item()
        model.eval()
        with torch.no_grad():
            val_loss = bce(model(val[0]).squeeze(1), val[1]).item()
        if val_loss < best_val:
            best_val = val_loss
            best_state = model.state_dict()  # ORIGIN
        print(f"epoch {epoch}  train {running / len(train_loader):.4f}  val {val_loss:.4f}")
    model.load_state_dict(best_state)
    with torch.no_grad():
        print(f"best {best_val:.4f}, restored {bce(model(val[0]).squeeze(1), val[1]).item():.4f}")


torch.manual_seed(3)
w = torch.randn(12)
loader = DataLoader(TensorDataset(*dataset(320, w)), batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1))
train(net, loader, dataset(200, w))
