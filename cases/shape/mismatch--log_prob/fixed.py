"""Count regression with a mixture of two Poissons, their weights learnt for all rows together."""
import torch
from torch import nn
from torch.distributions import Poisson

torch.manual_seed(2)
rows = torch.randn(200, 5)
counts = torch.poisson(torch.exp(0.4 * rows[:, 0] + 0.8))

rates = nn.Linear(5, 2)
mixing = nn.Parameter(torch.zeros(2))
optimizer = torch.optim.Adam([*rates.parameters(), mixing], lr=0.05)


def negative_log_likelihood(batch, seen):
    parts = Poisson(nn.functional.softplus(rates(batch)) + 1e-3)
    each = parts.log_prob(seen.unsqueeze(1))
    return -torch.logsumexp(each + mixing.log_softmax(0), dim=1).mean()


for step in range(40):
    pick = torch.randperm(len(rows))[:50]
    optimizer.zero_grad()
    loss = negative_log_likelihood(rows[pick], counts[pick])
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
