"""Detection-style fine-tuning: batch norm is kept in eval mode during training because the batches hold two images."""
import torch
from torch import nn


def conv_bn(i, o, stride):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())


class Net(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.body = nn.Sequential(conv_bn(1, 8, 1), conv_bn(8, 16, 2), conv_bn(16, 16, 2))
        self.head = nn.Linear(16 * 9, out)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


def bars(n, classes):
    y = torch.randint(0, classes, (n,))
    x = 0.5 * torch.randn(n, 1, 12, 12)
    for k in range(n):
        c = int(y[k])
        x[k, 0, 3 * c: 3 * c + 2, :] += 0.8
    return x, y


def train(model, batches, opt, freeze_bn=False):
    model.train()
    if freeze_bn:
        for m in model.modules():
            if isinstance(m, nn.modules.batchnorm._BatchNorm):
                m.eval()                       # running statistics stay, the affine part still learns
    hist = []
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
        hist.append(loss.item())
    return hist


torch.manual_seed(55)
model = Net(2)
h = train(model, (bars(32, 2) for _ in range(30)), torch.optim.Adam(model.parameters(), lr=3e-3))
print(f"pretraining {h[0]:.3f} -> {h[-1]:.3f}")

model.head = nn.Linear(16 * 9, 4)
before = model.body[1][1].running_mean.clone()
opt = torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9)
h = train(model, (bars(2, 4) for _ in range(200)), opt, freeze_bn=True)
print(f"fine-tuning {sum(h[:20]) / 20:.3f} -> {sum(h[-20:]) / 20:.3f}; statistics untouched: {torch.equal(before, model.body[1][1].running_mean)}")

model.eval()
with torch.no_grad():
    x, y = bars(200, 4)
    print("accuracy %.2f" % (model(x).argmax(1) == y).float().mean())
