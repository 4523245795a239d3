"""Stopping distance of a tram from its speed, load and the wetness of the rails: two layers, written without modules."""
import torch

torch.manual_seed(3)
speed, load, wet = torch.rand(240, 1), torch.rand(240, 1), torch.rand(240, 1)
features = torch.cat([speed, load, wet], dim=1)
distance = speed**2 * (1 + 0.5 * load) * (1 + wet) + 0.02 * torch.randn(240, 1)

w_hidden = (torch.randn(3, 24) * 0.5).requires_grad_()
b_hidden = torch.zeros(24, requires_grad=True)
w_out = (torch.randn(24, 1) * 0.2).requires_grad_()
rate = 0.05

for step in range(300):
    rows = torch.randint(240, (48,))
    hidden = torch.relu(features[rows] @ w_hidden + b_hidden)
    loss = ((hidden @ w_out - distance[rows]) ** 2).mean()
    loss.backward()  # ORIGIN
    with torch.no_grad():
        w_hidden -= rate * w_hidden.grad
        b_hidden -= rate * b_hidden.grad
        w_out -= rate * w_out.grad
    if step % 100 == 0:
        print(f"step {step} loss {loss.item():.4f}")
