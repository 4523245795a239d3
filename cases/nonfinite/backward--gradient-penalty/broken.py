"""A critic for molecule fingerprints, kept smooth by a penalty on its slope between real and made-up ones."""
import torch
from torch import nn

WIDTH = 6


def make_critic():
    critic = nn.Sequential(nn.Linear(WIDTH, 12), nn.ReLU(), nn.Linear(12, 1))
    with torch.no_grad():
        critic[0].weight.abs_()
    return critic


def penalty(critic, real, made):
    share = torch.rand(len(real), 1)
    point = share * real + (1 - share) * made
    point.requires_grad_()
    (slope,) = torch.autograd.grad(critic(point).sum(), point, create_graph=True)
    return (slope.pow(2).sum(1) ** 0.5 - 1).pow(2).mean()  # ORIGIN


def fingerprints(n, rng):
    return torch.rand(n, WIDTH, generator=rng)


def main():
    torch.manual_seed(0)
    rng = torch.Generator().manual_seed(1)
    critic = make_critic()
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.02)
    for step in range(260):
        real, made = fingerprints(16, rng), 0.5 * fingerprints(16, rng)
        if step == 240:
            # A plate that was read without its blank taken off.
            real, made = real - 40.0, made - 40.0
        loss = critic(made).mean() - critic(real).mean() + penalty(critic, real, made)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
