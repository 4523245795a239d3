"""Which pot a seedling belongs to, from its leaves: new weights in every round, each step of the same length."""
import torch


def wrong_side(weights, leaves, pot):
    plane, offset = weights
    return torch.relu(0.005 - pot * (leaves @ plane + offset)).sum()


def one_round(weights, leaves, pot):
    slopes = torch.autograd.grad(wrong_side(weights, leaves, pot), weights)
    length = torch.stack([each.square().sum() for each in slopes]).sum().sqrt()
    return [(w - 0.02 * s / length).detach().requires_grad_() for w, s in zip(weights, slopes)]  # ORIGIN


torch.manual_seed(3)
leaves = torch.randn(40, 4)
pot = torch.where(leaves[:, 0] + leaves[:, 3] > 0, 1.0, -1.0)
weights = [torch.zeros(4, requires_grad=True), torch.zeros((), requires_grad=True)]
for _ in range(500):
    weights = one_round(weights, leaves, pot)
print([each.tolist() for each in weights])
