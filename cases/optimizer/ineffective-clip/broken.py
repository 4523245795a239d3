import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_


class Adder(nn.Module):
    """Adds up the marked numbers of a sequence."""

    def __init__(self, hidden=32):
        super().__init__()
        self.gru = nn.GRU(2, hidden, batch_first=True)
        self.readout = nn.Linear(hidden, 1)

    def forward(self, x):
        out, _ = self.gru(x)
        return self.readout(out[:, -1])


def make_batch(n=64, length=6):
    values = torch.randn(n, length)
    mask = (torch.rand(n, length) < 0.3).float()
    return torch.stack([values, mask], -1), (values * mask).sum(1, keepdim=True)


def train(steps, clip):
    torch.manual_seed(22)
    model = Adder()
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        x, y = make_batch()
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        norm = clip_grad_norm_(model.parameters(), clip)  # ORIGIN
        if step % 20 == 0 or step == steps - 1:
            print(f"{step:4d}  loss {loss.item():.4f}  grad norm {norm.item():.3f}")


train(steps=100, clip=0.5)
