import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Transactions(Dataset):
    """129 labelled card payments, ten features each."""

    def __init__(self, n=129):
        gen = torch.Generator().manual_seed(99)
        self.rows = torch.randn(n, 10, generator=gen)
        self.fraud = (self.rows[:, 0] * self.rows[:, 1] > 0.3).float()

    def __len__(self):
        return len(self.fraud)

    def __getitem__(self, k):
        return {"x": self.rows[k], "fraud": self.fraud[k]}


class FraudNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.SiLU(), nn.Linear(32, 16), nn.SiLU())
        self.score = nn.Linear(16, 1)

    def forward(self, x):
        z = self.body(x)
        return self.score(z).squeeze()  # ORIGIN


torch.manual_seed(0)
net = FraudNet()
bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))
optim = torch.optim.RMSprop(net.parameters(), lr=2e-3)
dl = DataLoader(Transactions(), batch_size=16, shuffle=True)

for epoch in range(2):
    hits = 0
    for batch in dl:
        logit = net(batch["x"])
        loss = bce(logit, batch["fraud"])
        optim.zero_grad()
        loss.backward()
        optim.step()
        hits += int(((logit > 0) == (batch["fraud"] > 0.5)).sum())
    print(f"epoch {epoch}  acc {hits / len(dl.dataset):.3f}")
