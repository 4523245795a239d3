"""Two tasks on one trunk; the part of one gradient that works against the other is taken out before each step."""
import torch
from torch import nn

torch.manual_seed(11)
trunk, wet, warm = nn.Linear(6, 20), nn.Linear(20, 1), nn.Linear(20, 1)
weights = [*trunk.parameters(), *wet.parameters(), *warm.parameters()]
optimizer = torch.optim.SGD(weights, lr=0.05, momentum=0.9)
sky = torch.randn(600, 6)
rain, heat = sky[:, :2].sum(1, keepdim=True).tanh(), (sky[:, 2:3] - sky[:, 3:4]).tanh()


def flat(loss, keep):
    found = torch.autograd.grad(loss, weights, retain_graph=keep, allow_unused=True)
    return torch.cat([(torch.zeros_like(w) if g is None else g).flatten() for w, g in zip(weights, found, strict=True)])


def apart(one, other):
    along = torch.dot(one, other)
    return one - along / other.square().sum().clamp(min=1e-9) * other if along < 0 else one


for step in range(150):
    rows = torch.randint(0, 600, (40,))
    seen = torch.relu(trunk(sky[rows]))
    first = flat(nn.functional.mse_loss(wet(seen), rain[rows]), keep=True)
    second = flat(nn.functional.mse_loss(warm(seen), heat[rows]), keep=False)
    pieces = (apart(first, second) + apart(second, first)).split([each.numel() for each in weights])
    for weight, piece in zip(weights, pieces, strict=True):
        weight.grad = piece.view_as(weight).clone()
    optimizer.step()
    if step % 50 == 49:
        with torch.no_grad():
            error = nn.functional.mse_loss(wet(torch.relu(trunk(sky))), rain)
        print(f"step {step + 1} error {error.item():.4f}")
