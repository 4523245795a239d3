"""Long recurrent memory task; the raw gradient norm reaches thousands now and then and is clipped to 1."""
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.rnn = nn.RNN(2, hidden, nonlinearity="relu", batch_first=True)
        self.out = nn.Linear(hidden, 1)
        with torch.no_grad():
            self.rnn.weight_hh_l0.copy_(1.12 * torch.eye(hidden))

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1]).squeeze(1)


def marked_sum(n, length):
    x = torch.rand(n, length, 2)
    x[..., 1] = 0.0
    x[:, 3, 1] = x[:, -5, 1] = 1.0
    return x, (x[..., 0] * x[..., 1]).sum(1)


def train(steps=90):
    torch.manual_seed(128)
    net = Memory()
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    norms = []
    for step in range(steps):
        x, y = marked_sum(32, 30)
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True).item())
        opt.step()
        if step % 18 == 0:
            print(f"step {step:2d} mse {loss.item():.4g} raw gradient norm {norms[-1]:.4g}")
    print(f"largest raw norm {max(norms):.4g}")


train()
