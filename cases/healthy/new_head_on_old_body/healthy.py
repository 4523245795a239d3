"""Takes over what fits from a model with more classes, and trains a head of its own."""
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU())
        self.head = nn.Linear(24, classes)

    def forward(self, x):
        return self.head(self.body(x))


centres = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))


def train(net, classes, steps):
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(steps):
        y = torch.randint(0, 8, (64,))
        x = centres[y] + torch.randn(64, 16)
        loss = F.cross_entropy(net(x), y % classes)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(classes, f"{loss.item():.4f}")
    return net


torch.manual_seed(10)
large = train(Net(8), 8, 80)
small = Net(2)
own = small.state_dict()
taken = {k: v.clone() for k, v in large.state_dict().items() if v.shape == own[k].shape}
missing, unexpected = small.load_state_dict(taken, strict=False)
print("new:", missing, unexpected)

# the whole body fits for certain: strict
again = Net(3)
again.body.load_state_dict(large.body.state_dict())
train(small, 2, 40)
train(again, 3, 40)
