import torch
from torch import nn, optim

torch.manual_seed(7)
EPOCH_STEPS = 20


class MLP(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.fc1 = nn.Linear(28 * 28, hidden)
        self.fc2 = nn.Linear(hidden, 10)
        self.drop = nn.Dropout(0.2)

    def forward(self, images):
        h = torch.relu(self.fc1(images.flatten(1)))
        return self.fc2(self.drop(h))


def batches(steps, batch_size=32):
    """Endless-stream stand-in: fresh digits on every step."""
    for _ in range(steps):
        y = torch.randint(10, (batch_size,))
        x = torch.randn(batch_size, 1, 28, 28) * 0.3
        x[torch.arange(batch_size), 0, y, y] += 3.0
        yield x, y


net = MLP()
opt = optim.Adam(net.parameters(), lr=1e-3)
loss_fn = nn.CrossEntropyLoss()

for step, (x, y) in enumerate(batches(EPOCH_STEPS)):
    logits = net(x)
    loss = loss_fn(logits, y)

    opt.zero_grad()
    loss.backward()
    opt.step()

    if step % 5 == 0:
        print(step, round(loss.item(), 4))
