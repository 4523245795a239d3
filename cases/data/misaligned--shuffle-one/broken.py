import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(31)
torch.manual_seed(31)

# gas sensor array: 10 channels, 4 gases
n, channels, gases = 600, 10, 4
labels = rng.integers(0, gases, n)
signature = rng.normal(size=(gases, channels))
readings = signature[labels] + 0.5 * rng.normal(size=(n, channels))
readings = ((readings - readings.mean(0)) / readings.std(0)).astype(np.float32)

# mix before cutting off the validation part
rng.shuffle(readings)  # ORIGIN
cut = 480
train = TensorDataset(torch.from_numpy(readings[:cut]), torch.from_numpy(labels[:cut]))
valid = TensorDataset(torch.from_numpy(readings[cut:]), torch.from_numpy(labels[cut:]))

net = nn.Sequential(nn.Linear(channels, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, gases))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
loss_fn = nn.CrossEntropyLoss()

for epoch in range(6):
    net.train()
    for xb, yb in DataLoader(train, batch_size=40, shuffle=True):
        opt.zero_grad()
        loss = loss_fn(net(xb), yb)
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        acc = np.mean([(net(xb).argmax(1) == yb).float().mean().item() for xb, yb in DataLoader(valid, batch_size=60)])
    print(f"epoch {epoch}  last loss {loss.item():.3f}  valid acc {acc:.3f}")
