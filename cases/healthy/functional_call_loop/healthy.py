"""Ensemble of five nets trained with torch.func only: stacked weights, vmap, grad_and_value; nothing ever has a .grad."""
import copy

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

torch.manual_seed(58)
members = [nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1)) for _ in range(5)]
params, buffers = stack_module_state(members)
params = {k: v.detach() for k, v in params.items()}
skeleton = copy.deepcopy(members[0]).to("meta")


def loss_fn(p, b, x, y):
    return ((functional_call(skeleton, (p, b), (x,)) - y) ** 2).mean()


step_fn = vmap(grad_and_value(loss_fn), in_dims=(0, 0, 0, 0))
m = {k: torch.zeros_like(v) for k, v in params.items()}
for it in range(80):
    x = torch.randn(5, 32, 3)                                    # another bootstrap batch for each member
    y = torch.sin(x[..., :1]) + 0.5 * x[..., 1:2]
    grads, losses = step_fn(params, buffers, x, y)
    m = {k: 0.9 * m[k] + g for k, g in grads.items()}
    params = {k: v - 0.05 * m[k] for k, v in params.items()}
    if it % 20 == 0 or it == 79:
        print(it, " ".join(f"{v:.3f}" for v in losses.tolist()))

grid = torch.randn(6, 3)
pred = vmap(lambda p, b: functional_call(skeleton, (p, b), (grid,)))(params, buffers)
print("disagreement", round(pred.std(0).mean().item(), 3))
