import torch
from torch import nn
from torch.autograd import Function


class LeakySlope(Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x, slope)
        return torch.where(x > 0, x, x * slope)

    @staticmethod
    def backward(ctx, g):
        x, slope = ctx.saved_tensors
        pos = x > 0
        return torch.where(pos, g, g * slope), None  # ORIGIN


class ChannelPReLU(nn.Module):
    """one learnable slope per feature"""

    def __init__(self, features):
        super().__init__()
        self.slope = nn.Parameter(torch.full((features,), 0.25))

    def forward(self, x):
        return LeakySlope.apply(x, self.slope)


class Regressor(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.fc1 = nn.Linear(n_in, hidden)
        self.act1 = ChannelPReLU(hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.act2 = ChannelPReLU(hidden)
        self.fc3 = nn.Linear(hidden, 1)

    def forward(self, x):
        x = self.act1(self.fc1(x))
        x = self.act2(self.fc2(x))
        return self.fc3(x).squeeze(-1)


def train(model, x, y, steps=50, bs=64):
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-4)
    history = []
    for it in range(steps):
        pick = torch.randperm(x.size(0))[:bs]
        loss = nn.functional.smooth_l1_loss(model(x[pick]), y[pick])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        history.append(loss.item())
    return history


torch.manual_seed(5)
x = torch.randn(800, 8)
y = x[:, 0].abs() - x[:, 1].abs() + 0.3 * x[:, 2]
net = Regressor(8, 32)
h = train(net, x, y)
print("first/last loss:", round(h[0], 4), round(h[-1], 4))
print("slopes:", net.act1.slope.detach()[:5].tolist())
