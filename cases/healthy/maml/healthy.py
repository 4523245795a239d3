"""Second-order MAML on sine waves: torch.func inside (vmap over tasks), ordinary autograd outside."""
from functools import partial

import torch
from torch import nn
from torch.func import functional_call, grad, vmap


def make_net():
    return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))


def task_batch(n_tasks, shots):
    amp = torch.rand(n_tasks, 1, 1) * 2 + 0.5
    phase = torch.rand(n_tasks, 1, 1) * torch.pi
    x = torch.rand(n_tasks, 2 * shots, 1) * 8 - 4
    y = amp * torch.sin(x + phase)
    return x[:, :shots], y[:, :shots], x[:, shots:], y[:, shots:]


def mse(net, weights, x, y):
    return (functional_call(net, weights, (x,)) - y).square().mean()


def adapt_and_test(net, inner_lr, inner_steps, weights, xs, ys, xq, yq):
    fast = weights
    for _ in range(inner_steps):
        g = grad(partial(mse, net))(fast, xs, ys)
        fast = {k: w - inner_lr * g[k] for k, w in fast.items()}
    return mse(net, fast, xq, yq)


def main():
    torch.manual_seed(17)
    net = make_net()
    weights = dict(net.named_parameters())
    meta_opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    per_task = vmap(partial(adapt_and_test, net, 0.03, 2), in_dims=(None, 0, 0, 0, 0))

    for it in range(61):
        losses = per_task(weights, *task_batch(8, 10))   # (tasks,)
        meta_loss = losses.mean()
        meta_opt.zero_grad()
        meta_loss.backward()                             # through the inner updates
        meta_opt.step()
        if it % 20 == 0:
            print(f"meta-iteration {it:2d}: query mse {meta_loss.item():.3f} (worst task {losses.max().item():.3f})")


if __name__ == "__main__":
    main()
