"""Valve noise, read in lanes: two buffers are filled in turn and scaled in place, and each lane has a state that is cleared now and then."""
import torch
from torch import nn

torch.manual_seed(12)
LANES, STEPS, WIDTH = 16, 8, 6
signal = torch.randn(LANES, 12 * STEPS, WIDTH) * 3 + 5
worn = (torch.arange(LANES) % 2).float()
signal += worn[:, None, None] * 1.5
mean, spread = signal.mean((0, 1)), signal.std((0, 1))

buffers = [torch.empty(LANES // 2, STEPS, WIDTH) for _ in range(2)]
states = torch.zeros(LANES, 12)


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(WIDTH, 12)
        self.out = nn.Linear(12, 1)

    def forward(self, pieces, state):
        for piece in pieces.unbind(1):
            state = self.cell(piece, state)
        return self.out(state).squeeze(-1), state


net = Listener()
optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
for epoch in range(2):
    states.zero_()
    for at in range(0, signal.shape[1], STEPS):
        for half, lanes in enumerate((slice(0, LANES // 2), slice(LANES // 2, LANES))):
            pieces = buffers[half]
            pieces.copy_(signal[lanes, at : at + STEPS])
            pieces.sub_(mean).div_(spread)
            state = states[lanes]
            state *= (torch.rand(LANES // 2, 1) > 0.1).float()
            score, after = net(pieces, state)
            loss = nn.functional.binary_cross_entropy_with_logits(score, worn[lanes])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            states[lanes] = after.detach()
    print(f"epoch {epoch}: {loss.item():.4f}")
