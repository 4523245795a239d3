import torch
from torch import nn


class Accumulator(nn.Module):
    """running total of a series; the recurrence is a little expansive on purpose"""

    def __init__(self, hidden=32):
        super().__init__()
        self.rnn = nn.RNN(1, hidden, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(hidden, 1)
        with torch.no_grad():
            self.rnn.weight_hh_l0.copy_(1.04 * torch.eye(hidden))
            self.rnn.bias_hh_l0.zero_()
            self.rnn.bias_ih_l0.zero_()

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.head(out[:, -1])


def steps_of_a_walk(batch, length=50):
    value = torch.rand(batch, length, 1) - 0.5
    return value, value.sum(1) / 2


torch.manual_seed(0)
model = Accumulator()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(1, 61):
    x, total = steps_of_a_walk(32)
    loss = nn.functional.mse_loss(model(x), total)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f} norm before clipping {norm.item():.2f}")
