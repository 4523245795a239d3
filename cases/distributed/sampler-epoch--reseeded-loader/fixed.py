import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SEED = 17


def make_rings(n):
    angle = torch.rand(n) * 6.283
    inner = torch.arange(n) % 2
    radius = 1.0 + inner + 0.15 * torch.randn(n)
    return TensorDataset(torch.stack([radius * angle.cos(), radius * angle.sin()], 1), inner)


def reproducible_loader(dataset):
    shuffling = torch.Generator()
    shuffling.manual_seed(SEED)
    return DataLoader(dataset, batch_size=30, shuffle=True, generator=shuffling)


class Rings(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(2, 32)
        self.out = torch.nn.Linear(32, 2)

    def forward(self, point):
        return self.out(torch.tanh(self.hidden(point)))


torch.manual_seed(SEED)
dataset = make_rings(300)
net = Rings()
optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
loader = reproducible_loader(dataset)
for epoch in range(5):
    right = 0
    for point, ring in loader:
        score = net(point)
        optimizer.zero_grad()
        F.cross_entropy(score, ring).backward()
        optimizer.step()
        right += (score.argmax(1) == ring).sum().item()
    print(f"epoch {epoch}: accuracy {right / len(dataset):.3f}")
