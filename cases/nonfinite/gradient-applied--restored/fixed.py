"""float16 forward and backward with our own dynamic loss scale; float32 weights."""
import torch
from torch import nn


class LossScale:
    def __init__(self, value=2.0 ** 10, growth_every=15):
        self.value, self.growth_every, self.good = value, growth_every, 0

    def update(self, overflow):
        if overflow:
            self.value, self.good = self.value / 2, 0
        else:
            self.good += 1
            if self.good % self.growth_every == 0:
                self.value *= 4


class HalfTrainer:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.scale = LossScale()
        self.overflows = 0

    def unscale(self):
        finite = True
        for p in self.model.parameters():
            p.grad /= self.scale.value
            finite = finite and bool(torch.isfinite(p.grad).all())
        return finite

    def step(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.model(x)
        loss = nn.functional.mse_loss(out.float(), y)
        self.opt.zero_grad()
        (loss * self.scale.value).backward()
        finite = self.unscale()
        if finite:
            self.opt.step()
        else:
            self.overflows += 1
        self.scale.update(overflow=not finite)
        return loss.item()


def pendulum(n):
    state = torch.rand(n, 2) * 2 - 1
    angle, speed = state.unbind(1)
    return state, torch.stack([angle + 0.1 * speed, speed - 0.98 * angle.sin()], 1)


torch.manual_seed(37)
trainer = HalfTrainer(nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)), lr=1e-2)
for step in range(121):
    loss = trainer.step(*pendulum(64))
    if step % 15 == 0:
        print(f"step {step:3d} mse {loss:.5f} scale {trainer.scale.value:g} overflows {trainer.overflows}")
