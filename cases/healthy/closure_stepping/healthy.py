"""Adam stepped through a closure, as the L-BFGS examples do; zero_grad and backward live inside it."""
import torch
from torch import nn, optim


class Calibrator(nn.Module):
    """Monotone curve: softplus keeps all slopes positive."""

    def __init__(self, knots=12):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(knots))
        self.start = nn.Parameter(torch.zeros(()))
        self.register_buffer("at", torch.linspace(-2, 2, knots))
        with torch.no_grad():
            self.raw.add_(0.1 * torch.randn(knots))

    def forward(self, x):
        ramps = torch.sigmoid(4 * (x[:, None] - self.at[None, :]))    # (N, 1) against (1, K)
        return self.start + ramps @ nn.functional.softplus(self.raw)


def main():
    torch.manual_seed(23)
    x = torch.rand(256) * 4 - 2
    y = torch.tanh(1.5 * x) + 0.2 * x + 0.03 * torch.randn(256)
    model = Calibrator()
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    calls = 0

    for it in range(80):
        rows = torch.randint(256, (64,))

        def closure():
            nonlocal calls
            calls += 1
            optimizer.zero_grad()
            loss = nn.functional.smooth_l1_loss(model(x[rows]), y[rows], beta=0.1)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        if it % 20 == 0 or it == 79:
            print(f"{it:2d} loss {loss.item():.4f} closure calls {calls}")


main()
