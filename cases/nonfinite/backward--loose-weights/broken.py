"""Drift of a gyroscope from its temperature and supply; a penalty keeps the hidden code short. No modules, no optimizer."""
import torch

torch.manual_seed(0)
signals = torch.rand(512, 10)
drift = signals.mean(dim=1, keepdim=True) * 2 - 1
encode = (torch.randn(10, 20) * 0.3).requires_grad_()
decode = (torch.randn(20, 1) * 0.3).requires_grad_()

for step in range(700):
    rows = torch.randint(512, (32,))
    window, target = signals[rows], drift[rows]
    if step == 640:
        window = torch.zeros_like(window)  # the supply was off
    code = torch.nn.functional.dropout(torch.tanh(window @ encode), 0.1)
    length = code.pow(2).sum(dim=1).sqrt()  # ORIGIN
    loss = (code @ decode - target).pow(2).mean() + 1e-3 * length.mean()
    loss.backward()
    with torch.no_grad():
        for weight in (encode, decode):
            weight -= 0.05 * weight.grad
            weight.grad = None
print(f"{loss.item():.4f}")
