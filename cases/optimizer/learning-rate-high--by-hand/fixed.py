"""Litres of milk from feed, age and weight of a cow: least squares by gradient descent, written out."""
import torch

torch.manual_seed(1)
feed, age, weight = 15 + 10 * torch.rand(150), 2 + 8 * torch.rand(150), 450 + 250 * torch.rand(150)
litres = 0.9 * feed - 0.6 * age + 0.02 * weight + torch.randn(150)
cows = torch.stack([feed, age, weight], dim=1)

slope = torch.zeros(3, requires_grad=True)
base = torch.zeros(1, requires_grad=True)
rate = 2e-6
for step in range(40):
    error = cows @ slope + base - litres
    loss = error.square().mean()
    loss.backward()
    with torch.no_grad():
        slope -= rate * slope.grad
        base -= rate * base.grad
    slope.grad = base.grad = None
    if step % 10 == 0:
        print(step, loss.item())
print(slope.tolist(), base.item())
