import torch
from torch import nn

WORDS = ["offer", "win", "meeting", "invoice", "free", "agenda"]


def mails(n):
    counts = torch.poisson(torch.full((n, len(WORDS)), 0.8))
    spam = (counts[:, [0, 1, 4]].sum(1) > counts[:, [2, 3, 5]].sum(1)).long()  # ORIGIN
    return counts / 2 - 0.4, spam


torch.manual_seed(30)
filter_ = nn.Sequential(nn.Linear(len(WORDS), 12), nn.ReLU(), nn.Linear(12, 1), nn.Flatten(0))
judge = nn.BCEWithLogitsLoss()
opt = torch.optim.Adam(filter_.parameters(), lr=0.01)
for day in range(30):
    x, spam = mails(64)
    loss = judge(filter_(x), spam)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"{loss.item():.3f}")
