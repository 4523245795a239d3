"""Exponential growth fitted by L-BFGS; the line search may try a point where exp overflows and steps back."""
import torch

t = torch.linspace(0, 300, 31)
cells = 5.0 * torch.exp(0.02 * t)
theta = torch.tensor([2.0, -0.1], requires_grad=True)  # log of the start, rate
optimizer = torch.optim.LBFGS([theta], lr=1.0, max_iter=20, line_search_fn="strong_wolfe")
tried = []


def closure():
    optimizer.zero_grad()
    log_start, rate = theta
    model = torch.exp(log_start + rate * t)
    loss = ((model - cells) ** 2).mean()
    loss.backward()
    tried.append(loss.item())
    return loss


for outer in range(4):
    before = optimizer.step(closure)
    print(f"{outer}: loss {before.item():.6g} evaluations {len(tried)}")

print("infinite trial points:", sum(v == float("inf") for v in tried))
print("start", round(theta[0].exp().item(), 3), "rate", round(theta[1].item(), 4))
