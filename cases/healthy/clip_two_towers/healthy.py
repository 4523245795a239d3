"""Two-tower retrieval. The N x N score matrix is written out with unsqueeze: scores[i, j] = -|a_i - b_j|^2 / t."""
import torch
from torch import nn, optim


def tower(n_in):
    return nn.Sequential(nn.Linear(n_in, 32), nn.GELU(), nn.Linear(32, 8))


def main():
    torch.manual_seed(41)
    text, image = tower(10), tower(14)
    log_scale = nn.Parameter(torch.zeros(()))
    to_text, to_image = torch.randn(4, 10) * 0.6, torch.randn(4, 14) * 0.6
    opt = optim.AdamW([*text.parameters(), *image.parameters(), log_scale], lr=4e-3)
    n = 32
    for step in range(120):
        z = torch.randn(n, 4)
        a = text(z @ to_text + 0.1 * torch.randn(n, 10))
        b = image(z @ to_image + 0.1 * torch.randn(n, 14))
        scores = -(a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(2) * log_scale.exp()
        target = torch.arange(n)
        loss = (nn.functional.cross_entropy(scores, target) + nn.functional.cross_entropy(scores.t(), target)) / 2

        # margin term over all pairs: positives on the diagonal, (N, 1) against (N, N)
        positive = scores.diagonal()[:, None]
        hinge = (1.0 + scores - positive).clamp(min=0)
        hinge = hinge[~torch.eye(n, dtype=torch.bool)].mean()

        total = loss + 0.1 * hinge
        opt.zero_grad()
        total.backward()
        opt.step()
        if step % 24 == 0 or step == 119:
            r1 = (scores.argmax(1) == target).float().mean().item()
            print(f"{step:3d} nce {loss.item():.3f} hinge {hinge.item():.3f} R@1 {r1:.2f}")


main()
