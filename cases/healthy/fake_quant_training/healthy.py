"""Quantisation-aware training: 4-bit weights and 6-bit activations are simulated by a Function with a pass-through gradient."""
import torch
from torch import nn
import torch.nn.functional as F


class FakeQuant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale, qmin, qmax):
        q = torch.floor(x / scale + 0.5)
        inside = (q >= qmin) & (q <= qmax)
        ctx.mark_non_differentiable(inside)
        ctx.save_for_backward(inside)
        return q.clamp(qmin, qmax) * scale

    @staticmethod
    def backward(ctx, grad_out):
        inside, = ctx.saved_tensors
        return torch.where(inside, grad_out, torch.zeros_like(grad_out)), None, None, None


class QLinear(nn.Linear):
    def __init__(self, i, o, w_bits=4, a_bits=6):
        super().__init__(i, o)
        self.w_max, self.a_max = 2 ** (w_bits - 1) - 1, 2 ** (a_bits - 1) - 1
        self.register_buffer("a_range", torch.tensor(1.0))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.a_range.mul_(0.9).add_(0.1 * x.abs().max())
        x = FakeQuant.apply(x, self.a_range / self.a_max, -self.a_max, self.a_max)
        w_scale = self.weight.detach().abs().max() / self.w_max
        w = FakeQuant.apply(self.weight, w_scale, -self.w_max, self.w_max)
        return F.linear(x, w, self.bias)


torch.manual_seed(30)
net = nn.Sequential(QLinear(8, 48), nn.ReLU(), QLinear(48, 48), nn.ReLU(), QLinear(48, 4))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
rule = torch.randn(8, 4)
for step in range(101):
    x = torch.randn(64, 8)
    y = (x @ rule).argmax(1)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 25 == 0:
        print("step %3d loss %.4f" % (step, loss.item()))

net.eval()
with torch.no_grad():
    x = torch.randn(512, 8)
    acc = (net(x).argmax(1) == (x @ rule).argmax(1)).float().mean()
    first = net[0]
    s = first.weight.abs().max() / first.w_max
    levels = FakeQuant.apply(first.weight, s, -first.w_max, first.w_max).div(s).round().unique().numel()
print(f"accuracy {acc:.2f}, distinct weight levels {levels}")
