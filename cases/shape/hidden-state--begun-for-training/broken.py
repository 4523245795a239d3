"""Electricity of many homes, hour by hour: the state goes with a home from one day to the next."""
import torch
from torch import nn

HOMES = 16


class Meter(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(3, 20, batch_first=True)
        self.use = nn.Linear(20, 1)

    def begin(self, homes):
        size = [1, homes, self.cell.hidden_size]
        return {"long": torch.zeros(size), "short": torch.zeros(size)}

    def forward(self, hours, memory):
        seen, (short, long) = self.cell(hours, (memory["short"], memory["long"]))
        return self.use(seen), {"long": long.detach(), "short": short.detach()}


def day(homes, number):
    g = torch.Generator().manual_seed(number)
    hours = torch.randn(homes, 24, 3, generator=g)
    return hours, hours.sum(-1, keepdim=True).cumsum(1) / 5


def fit(net, opt, days):
    memory = net.begin(HOMES)
    for number in range(days):
        hours, used = day(HOMES, number)
        guess, memory = net(hours, memory)
        loss = nn.functional.mse_loss(guess, used)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


@torch.no_grad()
def held_out(net, days):
    total, memory = 0.0, net.begin(HOMES)  # ORIGIN
    for number in range(days):
        hours, used = day(5, 1000 + number)
        guess, memory = net(hours, memory)
        total += (guess - used).abs().mean().item()
    return total / days


torch.manual_seed(0)
net = Meter()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
print("fit", round(fit(net, opt, 14), 3))
print("held out", round(held_out(net, 4), 3))
