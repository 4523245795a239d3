# Running average of the scores of the last batches, used as a baseline.
import torch
import torch.nn.functional as F

torch.manual_seed(1)
points = torch.randn(330, 6)
target = points[:, :2].sum(1)

W = (0.1 * torch.randn(6, 8)).requires_grad_()
v = (0.1 * torch.randn(8)).requires_grad_()
opt = torch.optim.SGD([W, v], lr=0.05)


def score(x):
    return torch.tanh(x @ W) @ v


def loop(batch=50):
    baseline = torch.zeros(batch)
    for start in range(0, len(points) - len(points) % batch, batch):
        xb = points[start : start + batch]
        yb = target[start : start + batch]
        out = score(xb)
        loss = F.mse_loss(out, yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        baseline = 0.9 * baseline + 0.1 * out.detach()
        print(start, f"{loss.item():.4f}", f"{baseline.mean().item():+.4f}")


loop()
