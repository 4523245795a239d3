"""Students with different numbers of exams: score table padded with NaN, statistics with nanmean, padding kept out of the model."""
import torch
from torch import nn

torch.manual_seed(46)
N, MAX = 60, 8


def school():
    ability = torch.randn(N)
    taken = torch.randint(3, MAX + 1, (N,))
    scores = ability[:, None] + 0.5 * torch.randn(N, MAX)
    scores[torch.arange(MAX) >= taken[:, None]] = float("nan")
    return scores, ability


class Rater(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, features):
        return self.net(features).squeeze(1)


def describe(scores):
    mean = torch.nanmean(scores, dim=1)
    spread = torch.nanmean((scores - mean[:, None]) ** 2, dim=1).sqrt()
    best = torch.where(scores.isnan(), torch.tensor(float("-inf")), scores).amax(1)
    return torch.stack([mean, spread, best], 1)


def nan_correlation(table, truth):
    """Per exam, over those who took it; an exam nobody took gives NaN and is not counted."""
    rows = []
    for column in table.T:
        ok = ~column.isnan()
        rows.append(torch.corrcoef(torch.stack([column[ok], truth[ok]]))[0, 1] if ok.sum() > 2 else torch.tensor(float("nan")))
    return torch.stack(rows).nanmean().item()


rater = Rater()
opt = torch.optim.Adam(rater.parameters(), lr=1e-2)
for epoch in range(81):
    scores, ability = school()
    loss = nn.functional.mse_loss(rater(describe(scores)), ability)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 20 == 0:
        scores[:, -1] = float("nan")
        print(f"epoch {epoch} mse {loss.item():.4f} exam correlation {nan_correlation(scores, ability):.3f}")
