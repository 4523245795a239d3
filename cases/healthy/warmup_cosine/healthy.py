import math

import torch


def warmup_then_restarts(warmup, period, floor=0.02):
    """0 at step 0, linear to 1, then cosine cycles that jump back up."""

    def factor(step):
        if step < warmup:
            return step / warmup
        phase = (step - warmup) % period / period
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * phase))

    return factor


def param_groups(model, weight_decay):
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": decay, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


class Residual(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.fc1 = torch.nn.Linear(width, 2 * width)
        self.fc2 = torch.nn.Linear(2 * width, width)
        torch.nn.init.zeros_(self.fc2.weight)   # residual branches start silent

    def forward(self, x):
        return x + self.fc2(torch.nn.functional.gelu(self.fc1(self.norm(x))))


torch.manual_seed(80)
model = torch.nn.Sequential(torch.nn.Linear(3, 24), Residual(24), Residual(24), torch.nn.Linear(24, 1))
opt = torch.optim.AdamW(param_groups(model, 0.01), lr=1e-2)
sched = torch.optim.lr_scheduler.LambdaLR(opt, warmup_then_restarts(warmup=10, period=40))

x = torch.randn(256, 3)
y = torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:]
gen = torch.Generator().manual_seed(0)
lrs = []
for step in range(130):
    rows = torch.randint(0, len(x), (64,), generator=gen)
    loss = torch.nn.functional.huber_loss(model(x[rows]), y[rows])
    opt.zero_grad()
    loss.backward()
    opt.step()
    lrs.append(opt.param_groups[0]["lr"])
    sched.step()                                # per iteration, on purpose
    if step % 43 == 0:
        print(f"step {step:3d}  lr {lrs[-1]:.5f}  loss {loss.item():.4f}")
print(f"lr: first {lrs[0]}, peak {max(lrs):.4f}, restarts at {[i for i in range(11, 130) if lrs[i] > 3 * lrs[i - 1]]}")
