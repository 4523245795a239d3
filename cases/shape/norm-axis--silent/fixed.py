import torch
from torch import nn


class SensorNet(nn.Module):
    """16 time steps, 16 hidden channels"""

    def __init__(self, sensors=5, channels=16, classes=2):
        super().__init__()
        self.lift = nn.Linear(sensors, channels)
        self.norm = nn.BatchNorm1d(channels)
        self.rnn = nn.GRU(channels, 24, batch_first=True)
        self.head = nn.Linear(24, classes)

    def forward(self, x):
        h = self.lift(x)
        h = self.norm(h.transpose(1, 2)).transpose(1, 2)
        _, last = self.rnn(torch.relu(h))
        return self.head(last[-1])


def make_loader(batches, batch_size=32):
    gen = torch.Generator().manual_seed(3)
    for _ in range(batches):
        x = torch.randn(batch_size, 16, 5, generator=gen)
        y = torch.randint(0, 2, (batch_size,), generator=gen)
        # positive windows drift upwards in sensor 2
        drift = torch.linspace(0.0, 1.5, 16)
        x[..., 2] += drift * (2 * y - 1).unsqueeze(1)
        yield x, y


torch.manual_seed(10)
net = SensorNet()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
net.train()
for i, (x, y) in enumerate(make_loader(60), start=1):
    out = net(x)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % 15 == 0:
        print("iteration", i, "loss", round(loss.item(), 4))
