# Fit a damped oscillation with full-batch L-BFGS. The closure runs several times per step.
import torch
from torch import nn

torch.manual_seed(13)
t = torch.linspace(0, 6, 80).unsqueeze(1)
y = torch.exp(-0.4 * t) * torch.cos(2.5 * t) + 0.02 * torch.randn_like(t)


class Damped(nn.Module):
    def __init__(self):
        super().__init__()
        self.decay = nn.Parameter(torch.tensor(0.1))
        self.omega = nn.Parameter(torch.tensor(2.2))
        self.phase = nn.Parameter(torch.tensor(0.3))
        self.amp = nn.Parameter(torch.tensor(0.5))

    def forward(self, t):
        return self.amp * torch.exp(-self.decay * t) * torch.cos(self.omega * t + self.phase)


model = Damped()
optimizer = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=8, history_size=6, line_search_fn="strong_wolfe")
calls = 0


def closure():
    global calls
    calls += 1
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(t), y)
    loss.backward()
    return loss


for outer in range(5):
    loss = optimizer.step(closure)  # the loss before this step's line searches
    print(f"{outer}: mse {loss.item():.6f} after {calls} evaluations")

for name, p in model.named_parameters():
    print(f"{name:6s} {p.item():+.3f}")
