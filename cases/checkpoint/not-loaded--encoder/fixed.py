import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(33)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(24, 48)
        self.l2 = nn.Linear(48, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        return self.norm(self.l2(F.gelu(self.l1(x))))


class Pretraining(nn.Module):
    """The encoder with a head for the six fine-grained source classes."""

    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.classifier = nn.Linear(16, 6)

    def forward(self, x):
        return self.classifier(self.encoder(x))


class Downstream(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.backbone = Encoder()
        self.backbone.load_state_dict({k[8:]: v for k, v in weights.items() if k.startswith("encoder.")})
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.backbone(x))


prototypes = torch.randn(6, 24)


def batch(n=64):
    y = torch.randint(0, 6, (n,))
    return prototypes[y] + 1.5 * torch.randn(n, 24), y


def pretrain(steps=60):
    net = Pretraining()
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for i in range(steps):
        x, y = batch()
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 0:
            print("pretrain", i, round(loss.item(), 4))
    return net.state_dict()


def finetune(weights, steps=60):
    clf = Downstream(weights)
    opt = torch.optim.Adam(clf.parameters(), lr=2e-3)
    for i in range(steps):
        x, y = batch()
        loss = F.cross_entropy(clf(x), y // 3)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 20 == 0:
            print("finetune", i, round(loss.item(), 4))


finetune(pretrain())
