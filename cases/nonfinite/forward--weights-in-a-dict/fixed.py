"""Which of two wells a water sample came from. Pure functions: weights go in, new weights come out."""
import torch


def init(key, sizes):
    pairs = zip(sizes, sizes[1:])
    return {f"layer{n}": (torch.randn(a, b, generator=key) / a**0.5).requires_grad_() for n, (a, b) in enumerate(pairs)}


def predict(weights, minerals):
    out = minerals
    for name in weights:
        out = out @ weights[name]
        out = torch.relu(out) if name != "layer1" else out
    return torch.log_softmax(out, dim=-1)


def nll(weights, minerals, well):
    chosen = predict(weights, minerals)[torch.arange(len(well)), well]
    return -chosen.mean()


def descend(weights, gradients, rate):
    return {k: (w - rate * g).detach().requires_grad_() for (k, w), g in zip(weights.items(), gradients)}


def readings(key, count):
    for n in range(count):
        minerals = torch.randn(64, 8, generator=key)
        well = (minerals[:, 0] > 0).long()
        if n == 600:  # a probe that was not calibrated
            minerals[7] = minerals[7] * 4000
            well[7] = 1 - well[7]
        yield minerals, well


key = torch.Generator().manual_seed(1)
weights = init(key, [8, 32, 2])
curve = []
for minerals, well in readings(key, 650):
    loss = nll(weights, minerals, well)
    gradients = torch.autograd.grad(loss, list(weights.values()))
    weights = descend(weights, gradients, 0.1)
    curve.append(loss.item())
print(f"{curve[0]:.3f} to {curve[-1]:.3f}")
