import torch
from torch import nn
from torch.optim import Optimizer


class SignMomentum(Optimizer):
    """Lion-like: the step is the sign of an averaged gradient."""

    def __init__(self, params, lr=1e-3, beta=0.9, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, beta=beta, weight_decay=weight_decay))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["average"] = torch.zeros(p.shape)  # ORIGIN

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                average = self.state[p]["average"]
                average.lerp_(p.grad, 1 - group["beta"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(average.sign(), alpha=-group["lr"])


DEVICE = "meta"
torch.manual_seed(0)
model = nn.Sequential()
model.add_module("conv", nn.Conv1d(2, 6, kernel_size=5))
model.add_module("act", nn.ReLU())
model.add_module("pool", nn.AdaptiveMaxPool1d(1))
model.add_module("flat", nn.Flatten())
model.add_module("head", nn.Linear(6, 3))
model.to(DEVICE)

opt = SignMomentum(model.parameters(), lr=1e-3, weight_decay=0.01)
for it in range(8):
    wave = torch.randn(12, 2, 40, device=DEVICE)
    kind = torch.randint(3, (12,), device=DEVICE)
    loss = nn.functional.cross_entropy(model(wave), kind)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("finished", it + 1, "iterations")
