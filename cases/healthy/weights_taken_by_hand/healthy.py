"""Four ways to take weights out of a file whose names do not fit, without load_state_dict seeing one of them."""
import io

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(F.relu(self.body(x)))


def train(net, tag, target, steps=12):
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(steps):
        x = torch.randn(32, 8)
        loss = F.cross_entropy(net(x), target(x))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"{tag:10s} {loss.item():.3f}")
    return net


def sign(x):
    return (x[:, 0] > x[:, 1]).long()


torch.manual_seed(3)
file = io.BytesIO()
torch.save(train(nn.DataParallel(Net()), "source", sign, 40).state_dict(), file)


def read():
    file.seek(0)
    return torch.load(file)


# written into the module's own memory, and then loaded onto itself
net = Net()
own = net.state_dict()
for name, weight in read().items():
    own[name.removeprefix("module.")].copy_(weight)
net.load_state_dict(own)
train(net, "in place", sign)

# one layer, and no more than that
net = Net()
own = net.state_dict()
own["body.0.weight"] = read()["module.body.0.weight"]
net.load_state_dict(own)
train(net, "one layer", sign)

# a teacher gets it, and a pupil does not
teacher, pupil = Net(), Net()
with torch.no_grad():
    for name, weight in teacher.named_parameters():
        weight.copy_(read()["module." + name])
train(pupil, "pupil", lambda x: teacher(x).detach().softmax(1))

# used as it is
weights = {name.removeprefix("module."): weight for name, weight in read().items()}
pupil = Net()
train(pupil, "functional", lambda x: functional_call(pupil, weights, x).detach().softmax(1))
