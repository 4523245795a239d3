"""Renewal process with a GRU: how long until the customer comes back?"""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

torch.manual_seed(21)


def histories(n):
    """Lists of waiting times in days."""
    for _ in range(n):
        length = int(torch.randint(4, 15, ()))
        mean = 1.0 + 4.0 * torch.rand(())
        yield torch.distributions.Exponential(1 / mean).sample((length,)) + 0.01


class Returns(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.shape_rate = nn.Linear(hidden, 2)

    def forward(self, waits, pad):
        past = torch.cat([torch.zeros_like(waits[:, :1]), waits[:, :-1]], dim=1)
        h, _ = self.gru(torch.log1p(past).unsqueeze(-1))
        shape, rate = nn.functional.softplus(self.shape_rate(h)).unbind(-1)
        # Weibull log density
        log_z = torch.log((waits * rate).masked_fill(pad, 1.0))
        log_p = shape.log() + rate.log() + (shape - 1) * log_z - torch.exp(shape * log_z)
        return -log_p.masked_fill(pad, 0.0).sum() / (~pad).sum()


data = list(histories(96))
net = Returns()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(5):
    for start in range(0, len(data), 16):
        chunk = data[start:start + 16]
        waits = pad_sequence(chunk, batch_first=True)
        pad = torch.arange(waits.shape[1])[None] >= torch.tensor([len(c) for c in chunk])[:, None]
        loss = net(waits, pad)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} nll {loss.item():.4f}")
