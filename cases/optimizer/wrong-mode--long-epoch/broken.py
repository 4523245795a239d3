import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
X = torch.randn(6400, 10); Y = (X[:, :3].sum(1) > 0).long()
tr = DataLoader(TensorDataset(X[:4800], Y[:4800]), batch_size=16, shuffle=True)
va = DataLoader(TensorDataset(X[4800:], Y[4800:]), batch_size=256)
net = nn.Sequential(nn.Linear(10, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 2))
opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
for ep in range(2):
    for x, y in tr:
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
    net.eval()  # ORIGIN
    with torch.no_grad():
        acc = sum((net(x).argmax(1) == y).sum().item() for x, y in va) / 1600
    print(ep, acc)
