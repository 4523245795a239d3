import torch
from torch.optim import Optimizer


class Yogi(Optimizer):
    """Adam with the additive second-moment rule of Zaheer et al. (2018)."""

    def __init__(self, params, lr=1e-2, betas=(0.9, 0.999)):
        super().__init__(params, dict(lr=lr, betas=betas))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                    state["v"] = torch.zeros_like(p)
                m, v, sq = state["m"], state["v"], p.grad * p.grad
                m.lerp_(p.grad, 1 - b1)
                v.addcmul_(torch.sign(v - sq), sq, value=-(1 - b2))
                p.addcdiv_(m, v.sqrt(), value=-group["lr"])  # ORIGIN
        return loss
