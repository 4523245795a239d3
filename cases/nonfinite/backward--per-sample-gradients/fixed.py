"""Which of two rivers a fish was caught in, from its scale pattern; every sample's gradient is clipped by itself."""
import torch
from torch.func import functional_call, grad, vmap

torch.manual_seed(8)
net = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3))
weights = {name: each.detach() for name, each in net.named_parameters()}
rings = torch.randn(300, 6)
river = (rings[:, 0] + rings[:, 1] > 0).float()
rings[211] = 0.0  # a scale that could not be read


def penalty(weights, ring, river):
    code = functional_call(net, weights, (ring,))
    spread = torch.sqrt((code - code[0]).square() * ring.abs().sum() + 1e-12)
    return (torch.sigmoid(code[0]) - river).square() + 0.01 * spread.sum()


per_sample = vmap(grad(penalty), in_dims=(None, 0, 0))
for step in range(60):
    rows = torch.arange(step * 30, step * 30 + 30) % 300
    gradients = per_sample(weights, rings[rows], river[rows])
    for name, each in gradients.items():
        length = each.flatten(1).norm(dim=1).clamp(min=1.0)
        clipped = each / length.view(-1, *[1] * (each.dim() - 1))
        weights[name] = weights[name] - 0.5 * clipped.mean(dim=0)
guess = functional_call(net, weights, (rings,))[:, 0] > 0
print(f"accuracy {(guess == (river > 0.5)).float().mean():.3f}")
