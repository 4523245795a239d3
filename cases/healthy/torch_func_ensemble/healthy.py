"""Four regressors at once with vmap; readings that are missing are NaN until the loss leaves them out."""
import torch
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

torch.manual_seed(1)
nets = [torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.GELU(), torch.nn.Linear(16, 1)) for _ in range(4)]
weights, buffers = stack_module_state(nets)
weights = {name: each.detach() for name, each in weights.items()}
wind = torch.randn(256, 4)
power = (wind[:, :1].abs() + 0.3 * wind[:, 1:2]).clone()
power[::17] = float("nan")


def loss_of(weights, buffers, x, y):
    known = ~torch.isnan(y)
    error = functional_call(nets[0], (weights, buffers), (x,)) - torch.where(known, y, torch.zeros_like(y))
    return (error.square() * known).sum() / known.sum()


step = vmap(grad_and_value(loss_of), in_dims=(0, 0, None, None))
for number in range(120):
    rows = torch.randint(256, (64,))
    gradients, losses = step(weights, buffers, wind[rows], power[rows])
    weights = {name: each - 0.05 * gradients[name] for name, each in weights.items()}
    if number % 40 == 0:
        print(f"step {number} losses {[round(each, 3) for each in losses.tolist()]}")
