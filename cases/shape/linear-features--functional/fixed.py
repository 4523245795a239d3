import torch
import torch.nn.functional as F

torch.manual_seed(3)


def make_params():
    params = {
        "enc.w": torch.randn(48, 12) * 0.2,
        "enc.b": torch.zeros(48),
        "mid.w": torch.randn(24, 48) * 0.2,
        "mid.b": torch.zeros(24),
        "out.w": torch.randn(3, 24) * 0.2,
        "out.b": torch.zeros(3),
    }
    return {name: p.requires_grad_() for name, p in params.items()}


def forward(p, x):
    h = F.gelu(F.linear(x, p["enc.w"], p["enc.b"]))
    h = F.gelu(F.linear(h, p["mid.w"], p["mid.b"]))
    return F.linear(h, p["out.w"], p["out.b"])


def sgd_step(p, loss, lr):
    grads = torch.autograd.grad(loss, list(p.values()))
    return {
        name: (value - lr * g).detach().requires_grad_()
        for (name, value), g in zip(p.items(), grads)
    }


def main():
    centres = torch.randn(3, 12) * 2
    params = make_params()
    for step in range(40):
        y = torch.randint(0, 3, (24,))
        x = centres[y] + torch.randn(24, 12)
        loss = F.cross_entropy(forward(params, x), y)
        params = sgd_step(params, loss, lr=0.1)
        if step % 10 == 9:
            print(f"{step + 1:3d}  {loss.item():.4f}")


if __name__ == "__main__":
    main()
