import torch
import torch.nn as nn
import torch.nn.functional as F


class Hyper(nn.Module):
    """Writes the weights of a 1-16-1 network from a task code. The small net has no parameters of its own."""

    shapes = [(16, 1), (16,), (1, 16), (1,)]

    def __init__(self, code=2):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(code, 48), nn.SiLU())
        self.heads = nn.ModuleList(nn.Linear(48, torch.Size(s).numel()) for s in self.shapes)
        for h, s in zip(self.heads, self.shapes):
            nn.init.normal_(h.weight, std=0.02)
            nn.init.normal_(h.bias, std=1.0 if s == (16, 1) else 0.3)

    def forward(self, code):
        t = self.trunk(code)
        return [h(t).view(len(code), *s) for h, s in zip(self.heads, self.shapes)]


def small_net(weights, x):
    w1, b1, w2, b2 = weights                       # (B, 16, 1), (B, 16), (B, 1, 16), (B, 1)
    h = torch.tanh(torch.einsum("bni,boi->bno", x, w1) + b1.unsqueeze(1))
    return torch.einsum("bni,boi->bno", h, w2) + b2.unsqueeze(1)


def tasks(b, n=20):
    amp, phase = torch.rand(b, 1, 1) + 0.5, torch.rand(b, 1, 1) * 3
    x = torch.rand(b, n, 1) * 4 - 2
    return torch.cat([amp - 1, phase / 1.5 - 1], -1).squeeze(1), x, amp * torch.sin(x + phase)


def main(steps=150):
    torch.manual_seed(101)
    hyper = Hyper()
    opt = torch.optim.Adam(hyper.parameters(), lr=4e-3)
    for step in range(steps):
        code, x, y = tasks(16)
        loss = F.mse_loss(small_net(hyper(code), x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 30 == 0 or step == steps - 1:
            print(f"step {step:3d} mse {loss.item():.4f}")


if __name__ == "__main__":
    main()
