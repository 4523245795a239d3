"""TBPTT with overlap: the loss reaches back through the last 3 chunks (kept in a short deque), older history is cut off."""
from collections import deque

import torch
from torch import nn

CHUNK, REACH = 4, 3


class Echo(nn.Module):
    """must repeat the input of 3 ticks ago"""

    def __init__(self, hidden=32):
        super().__init__()
        self.cell = nn.GRUCell(1, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, xs, h):
        ys = []
        for x in xs:
            h = self.cell(x, h)
            ys.append(self.out(h))
        return torch.stack(ys), h


def main():
    torch.manual_seed(36)
    net = Echo()
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    signal = (torch.rand(CHUNK * 80, 24, 1) > 0.5).float() * 2 - 1
    wanted = torch.zeros_like(signal)
    wanted[3:] = signal[:-3]

    window = deque(maxlen=REACH)          # (inputs, targets) of the chunks inside the reach
    starts = deque([torch.zeros(24, 32)], maxlen=REACH)   # detached state at the start of each of them
    recent = deque(maxlen=4)              # the last outputs, for monitoring; never more than four
    history = []
    for c in range(80):
        part = slice(c * CHUNK, (c + 1) * CHUNK)
        window.append((signal[part], wanted[part]))
        xs = torch.cat([x for x, _ in window])
        ys = torch.cat([y for _, y in window])
        pred, _ = net(xs, starts[0])
        loss = nn.functional.mse_loss(pred[-CHUNK:], ys[-CHUNK:])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        recent.append(pred[-CHUNK:])
        with torch.no_grad():
            _, h_end = net(signal[part], starts[-1])
        starts.append(h_end)
        history.append(loss.item())
        if c % 20 == 19:
            spread = torch.stack([r.detach().std() for r in recent]).mean().item()
            print(f"chunk {c:3d} mse {sum(history[-20:]) / 20:.3f} output spread {spread:.2f}")


main()
