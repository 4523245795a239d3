"""Hand-made dynamic loss scaling in float16: batches whose scaled loss or gradient overflows are dropped, the scale is halved."""
import torch
from torch import nn


class Scaled:
    def __init__(self, params, scale=2.0 ** 22, patience=25):
        self.params, self.scale, self.patience, self.clean = list(params), scale, patience, 0

    def backward(self, loss):
        """Return True when the unscaled gradients may be used."""
        (loss.half() * self.scale).float().backward()
        ok = all(bool(torch.isfinite(p.grad).all()) for p in self.params)
        if not ok:
            self.scale, self.clean = self.scale / 2, 0
            return False
        for p in self.params:
            p.grad.div_(self.scale)
        self.clean += 1
        if self.clean % self.patience == 0:
            self.scale *= 2
        return True


def chirps(n):
    rate = torch.rand(n, 1) * 3 + 1
    t = torch.linspace(0, 2, 32)
    return torch.sin(rate * t ** 2) + 0.05 * torch.randn(n, 32), rate.squeeze(1)


torch.manual_seed(63)
model = nn.Sequential(nn.Linear(32, 48), nn.Tanh(), nn.Linear(48, 1))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
scaled = Scaled(model.parameters())
dropped = 0
for step in range(100):
    x, rate = chirps(32)
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x).squeeze(1)
    loss = nn.functional.mse_loss(out.float(), rate)
    opt.zero_grad()
    if scaled.backward(loss):
        opt.step()
    else:
        dropped += 1
    if step % 20 == 0:
        print(f"step {step:2d} mse {loss.item():.4f} scale {scaled.scale:g} dropped {dropped}")
