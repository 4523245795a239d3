"""A learned rate of learning: thirty steps of a small fit are unrolled with their graph before one backward through all of them."""
import torch

torch.manual_seed(9)
rates = torch.full((3,), -2.0, requires_grad=True)
shapes = [(4, 24), (24,), (24, 1)]


def error(w, x, y):
    return ((x @ w[0] + w[1]).tanh() @ w[2] - y).square().mean()


for round_ in range(4):
    rule = torch.randn(4, 1)
    w = [torch.randn(each) * 0.3 for each in shapes]
    w = [each.requires_grad_() for each in w]
    for inner in range(30):
        x = torch.randn(64, 4)
        slopes = torch.autograd.grad(error(w, x, x @ rule), w, create_graph=True)
        w = [each - rate.exp() * slope for each, rate, slope in zip(w, rates, slopes)]
    x = torch.randn(64, 4)
    outer = error(w, x, x @ rule)
    (slope,) = torch.autograd.grad(outer, [rates])
    with torch.no_grad():
        rates -= 0.2 * slope.clamp(-1, 1)
    print(round_, round(outer.item(), 3), [round(each, 2) for each in rates.exp().tolist()])
