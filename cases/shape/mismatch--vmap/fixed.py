"""Five forecasters of river levels, each trained on years that were drawn for it alone."""
import torch
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

FORECASTERS = 5


def forecaster():
    return torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))


def river(draw):
    rain = torch.randn(300, 3, generator=draw)
    return rain, (0.5 * rain[:, :1] + rain[:, 1:2].tanh()) + 0.05 * torch.randn(300, 1, generator=draw)


def own_years(rain, level, size, draw):
    years = torch.randint(0, len(rain), (FORECASTERS, size), generator=draw)
    return rain[years], level[years]


torch.manual_seed(13)
draw = torch.Generator().manual_seed(14)
rain, level = river(draw)
weights, buffers = stack_module_state([forecaster() for _ in range(FORECASTERS)])
shape = forecaster().to("meta")


def error(weights, buffers, rain, level):
    return (functional_call(shape, (weights, buffers), (rain,)) - level).square().mean()


train = vmap(grad_and_value(error))
for step in range(100):
    gradients, errors = train(weights, buffers, *own_years(rain, level, 40, draw))
    weights = {name: (each - 0.1 * gradients[name]).detach() for name, each in weights.items()}
    if step % 25 == 24:
        print(f"step {step + 1} errors {[round(each, 3) for each in errors.tolist()]}")
