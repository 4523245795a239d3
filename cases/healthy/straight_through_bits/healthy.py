# Binary-code autoencoder. round() has derivative zero, so the code uses
# the "hard minus detached soft plus soft" trick and gradients pass straight through.
import torch
import torch.nn as nn

torch.manual_seed(8)

BITS = 8
enc = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, BITS))
dec = nn.Sequential(nn.Linear(BITS, 32), nn.ReLU(), nn.Linear(32, 12))


def binarise(logits):
    soft = torch.sigmoid(logits)
    hard = torch.round(soft)
    return (hard - soft).detach() + soft


class SignSTE(torch.autograd.Function):
    """sign in the forward pass, clipped identity in the backward pass (Courbariaux et al.)"""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1).to(grad.dtype)


patterns = torch.randn(10, 12)


def sample(n):
    return patterns[torch.randint(10, (n,))] + 0.05 * torch.randn(n, 12)


params = [*enc.parameters(), *dec.parameters()]
for name, code, steps in (("round", binarise, 100), ("sign", lambda z: SignSTE.apply(z), 60)):
    opt = torch.optim.Adam(params, lr=4e-3)   # second pass fine-tunes with the other code
    for step in range(steps):
        x = sample(64)
        z = code(enc(x))
        loss = nn.functional.mse_loss(dec(z), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            values = sorted(set(z.detach().round().unique().tolist()))
            print(f"{name:5s} {step:3d} mse {loss.item():.4f} codes {values}")
