import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)


class ISRLUFunction(torch.autograd.Function):
    """Inverse square root linear unit (Carlile et al. 2017)."""

    @staticmethod
    def forward(ctx, x, alpha):
        neg = x * torch.rsqrt(1 + alpha * x * x)
        ctx.save_for_backward(x)
        ctx.alpha = alpha
        return torch.where(x >= 0, x, neg)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        slope = torch.rsqrt(1 + ctx.alpha * x * x) ** 3
        d = torch.where(x >= 0, torch.ones_like(x), slope)
        return d, None  # ORIGIN


class ISRLU(nn.Module):
    def __init__(self, alpha=3.0):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        return ISRLUFunction.apply(x, self.alpha)


X = torch.randn(512, 10)
y = torch.sin(X[:, :1]) + 0.5 * X[:, 1:2] * X[:, 2:3]
loader = DataLoader(TensorDataset(X, y), batch_size=32, shuffle=True)

net = nn.Sequential(nn.Linear(10, 48), ISRLU(), nn.Linear(48, 48), ISRLU(), nn.Linear(48, 1))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
criterion = nn.MSELoss()

for epoch in range(6):
    total = 0.0
    for xb, yb in loader:
        opt.zero_grad()
        loss = criterion(net(xb), yb)
        loss.backward()
        opt.step()
        total += loss.item() * len(xb)
    print(f"epoch {epoch}: mse {total / len(X):.4f}")
