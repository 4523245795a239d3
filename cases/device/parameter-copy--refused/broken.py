"""Least squares with a polynomial, by gradient descent on the coefficients."""
import torch

torch.manual_seed(5)
x = torch.linspace(-1, 1, 200, dtype=torch.float64)
y = 0.5 - 1.2 * x + 0.8 * x**3 + 0.05 * torch.randn(200, dtype=torch.float64)
powers = torch.stack([x**n for n in range(4)], dim=1)

coefficients = torch.randn(4, requires_grad=True).to(torch.float64)  # ORIGIN
descent = torch.optim.SGD([coefficients], lr=0.3, momentum=0.5)
for i in range(100):
    residual = powers @ coefficients - y
    loss = residual.square().mean()
    descent.zero_grad()
    loss.backward()
    descent.step()
print("coefficients", [round(c, 2) for c in coefficients.tolist()])
