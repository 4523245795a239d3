"""When to water: a line between dry and wet soil, moved by steps of one length until every pot is on its side."""
import torch

torch.manual_seed(7)
soil = torch.randn(80, 3)
is_dry = torch.where(soil @ torch.tensor([1.0, -2.0, 0.5]) > 0, 1.0, -1.0)
direction = torch.zeros(3, requires_grad=True)
offset = torch.zeros((), requires_grad=True)

for round_ in range(400):
    margin = is_dry * (soil @ direction + offset)
    loss = torch.relu(0.01 - margin).mean()
    loss.backward()
    length = (direction.grad.square().sum() + offset.grad.square()).sqrt()
    for weight in (direction, offset):
        weight.data -= 0.05 * weight.grad / length  # ORIGIN
        weight.grad = None
print(f"{loss.item():.4f} {direction.tolist()}")
