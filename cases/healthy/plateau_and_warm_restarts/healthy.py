"""Two scheduler habits in one file: ReduceLROnPlateau fed with the validation loss, and cosine warm restarts with fractional epochs."""
import torch
from torch import nn
from torch.optim import lr_scheduler


def problem():
    g = torch.Generator().manual_seed(3)
    x = torch.randn(320, 4, generator=g)
    y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2] ** 2 - 0.5 + 0.1 * torch.randn(320, 1, generator=g)
    return x[:256], y[:256], x[256:], y[256:]


def net():
    return nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))


def with_plateau(epochs=16):
    torch.manual_seed(0)
    xt, yt, xv, yv = problem()
    model = net()
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    sched = lr_scheduler.ReduceLROnPlateau(opt, factor=0.3, patience=1, threshold=1e-2)
    for epoch in range(epochs):
        for rows in torch.randperm(256).split(64):
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(xt[rows]), yt[rows])
            loss.backward()
            opt.step()
        with torch.no_grad():
            val = nn.functional.mse_loss(model(xv), yv).item()
        sched.step(val)
        if epoch % 5 == 0:
            print(f"plateau  epoch {epoch:2d} lr {opt.param_groups[0]['lr']:.4f} valid {val:.4f}")


def with_restarts(epochs=15):
    torch.manual_seed(0)
    xt, yt, xv, yv = problem()
    model = net()
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    sched = lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=1, T_mult=2, eta_min=1e-3)
    for epoch in range(epochs):
        parts = torch.randperm(256).split(64)
        for i, rows in enumerate(parts):
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(xt[rows]), yt[rows])
            loss.backward()
            opt.step()
            sched.step(epoch + (i + 1) / len(parts))
        if epoch in (0, 2, 6, 14):
            with torch.no_grad():
                val = nn.functional.mse_loss(model(xv), yv).item()
            print(f"restarts epoch {epoch:2d} lr now {opt.param_groups[0]['lr']:.4f} valid {val:.4f}")


with_plateau()
with_restarts()
