# Recover the coefficients of a cubic by gradient descent, no nn.Module needed.
import torch

torch.manual_seed(0)


def powers(x, degree):
    return torch.stack([x ** k for k in range(degree + 1)], dim=1)


def polynomial(x, coef):
    return powers(x, len(coef) - 1) @ coef


x = torch.linspace(-1.0, 1.0, 64)
target = 0.5 - 1.2 * x + 0.3 * x ** 2 + 2.0 * x ** 3
target = target + 0.02 * torch.randn_like(target)

# start from a rough guess read off the plot
coef = torch.tensor([0.0, -1.0, 0.0, 2.0], requires_grad=True)
optimizer = torch.optim.LBFGS([coef], lr=0.5, max_iter=10)


def closure():
    optimizer.zero_grad()
    residual = polynomial(x, coef) - target
    loss = residual.square().mean()
    loss.backward()
    return loss


for step in range(5):
    loss = optimizer.step(closure)
    print(step, f"{loss.item():.6f}")

print("coefficients:", [round(c, 3) for c in coef.tolist()])
