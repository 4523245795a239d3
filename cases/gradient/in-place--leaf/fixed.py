"""Softmax regression from scratch: no nn, no optim."""
import torch

torch.manual_seed(2)
N, D, K = 180, 5, 3
LR, L2 = 0.3, 1e-3

centres = torch.randn(K, D) * 2
labels = torch.arange(N) % K
points = centres[labels] + torch.randn(N, D)

W = torch.zeros(D, K, requires_grad=True)
b = torch.zeros(K, requires_grad=True)


def log_probs(x):
    z = x @ W + b
    return z - torch.logsumexp(z, dim=1, keepdim=True)


def objective(x, y):
    nll = -log_probs(x)[torch.arange(len(y)), y].mean()
    return nll + L2 * W.square().sum()


def sgd_step(params, lr):
    for p in params:
        with torch.no_grad():
            p -= lr * p.grad
        p.grad = None


for epoch in range(5):
    for rows in torch.randperm(N).chunk(6):
        loss = objective(points[rows], labels[rows])
        loss.backward()
        sgd_step([W, b], LR)
    with torch.no_grad():
        acc = (log_probs(points).argmax(1) == labels).float().mean()
    print(f"epoch {epoch}  loss {loss.item():.3f}  acc {acc:.2f}")
