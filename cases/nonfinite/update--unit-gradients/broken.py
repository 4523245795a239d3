"""Per-sample gradients, each cut to a length of one at most."""
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(3)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
params = {name: p.detach().clone() for name, p in model.named_parameters()}
true = torch.randn(10, 1)


def hinge(params, x, y):
    score = functional_call(model, params, (x.unsqueeze(0),)).squeeze()
    return torch.relu(1 - y * score)


per_sample = vmap(grad(hinge), in_dims=(None, 0, 0))


def clip(grads, bound):
    flat = torch.cat([g.flatten(1) for g in grads.values()], 1)
    factor = (bound / flat.norm(dim=1)).clamp(max=1.0) if bound else torch.ones(len(flat))
    unit = flat / flat.norm(dim=1, keepdim=True)  # ORIGIN
    sizes = factor * flat.norm(dim=1)
    clipped = unit * sizes[:, None]
    out, start = {}, 0
    for name, g in grads.items():
        n = g[0].numel()
        out[name] = clipped[:, start : start + n].reshape(g.shape).mean(0)
        start += n
    return out


for step in range(60):
    x = torch.randn(32, 10)
    y = (x @ true).squeeze(1).sign()
    grads = clip(per_sample(params, x, y), bound=1.0)
    params = {name: p - 0.2 * (grads[name] + 0.001 * torch.randn_like(p)) for name, p in params.items()}
    if step % 20 == 0:
        losses = vmap(hinge, in_dims=(None, 0, 0))(params, x, y)
        print(step, f"{losses.mean().item():.4f}")
