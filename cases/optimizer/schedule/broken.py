import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(9)
X = torch.randn(512, 10)
Y = torch.tanh(X @ torch.randn(10, 2) / 3) + 0.05 * torch.randn(512, 2)
train_loader = DataLoader(TensorDataset(X, Y), batch_size=32, shuffle=True)

model = nn.Sequential(nn.Linear(10, 64), nn.SiLU(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = StepLR(optimizer, step_size=4, gamma=0.1)  # drop the lr every 4 epochs
loss_fn = nn.MSELoss()

for epoch in range(10):
    running = 0.0
    for xb, yb in train_loader:
        optimizer.zero_grad()
        loss = loss_fn(model(xb), yb)
        loss.backward()
        optimizer.step()
        running += loss.item()
        scheduler.step()  # ORIGIN
    lr = optimizer.param_groups[0]["lr"]
    print(f"epoch {epoch:2d}  lr {lr:.1e}  loss {running / len(train_loader):.4f}")
