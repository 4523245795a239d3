"""SimCLR-like training of a small encoder; then alignment/uniformity with explicit pairwise distances."""
import torch
import torch.nn.functional as F
from torch import nn


def augment(x):
    keep = (torch.rand_like(x) > 0.2).float()
    return x * keep + 0.1 * torch.randn_like(x)


def nt_xent(a, b, temperature):
    """Symmetric InfoNCE: row i must find column i among all N columns."""
    logits = a @ b.T / temperature                      # (N, N) on purpose
    labels = torch.arange(len(a))
    return 0.5 * (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels))


def self_contrast(z, temperature):
    """One tower with 2N views; a view may not pick itself, hence -inf on the diagonal."""
    n = len(z) // 2
    sim = (z @ z.T / temperature).masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
    partner = torch.arange(2 * n).roll(n)
    return F.cross_entropy(sim, partner)


def uniformity(z):
    sq = (z[:, None] - z[None, :]).square().sum(-1)     # N x N distances, mean over all pairs
    return sq.mul(-2).exp().mean().log()


def main():
    torch.manual_seed(5)
    centres = torch.randn(6, 20) * 1.5
    encoder = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    log_t = nn.Parameter(torch.tensor(0.2).log())
    opt = torch.optim.Adam([{"params": encoder.parameters()}, {"params": [log_t], "lr": 1e-3}], lr=2e-3)

    for step in range(101):
        x = centres[torch.randint(0, 6, (48,))] + 1.5 * torch.randn(48, 20)
        a, b = (F.normalize(encoder(augment(x)), dim=-1) for _ in range(2))
        if step % 2 == 0:
            loss = nt_xent(a, b, log_t.exp())
        else:
            loss = self_contrast(torch.cat([a, b]), log_t.exp()) + 0.1 * uniformity(a)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 25 == 0:
            with torch.no_grad():
                hit = (a @ b.T).argmax(1).eq(torch.arange(48)).float().mean()
            print(f"step {step:3d} loss {loss.item():.3f} top-1 {hit.item():.2f} T {log_t.exp().item():.3f}")


if __name__ == "__main__":
    main()
