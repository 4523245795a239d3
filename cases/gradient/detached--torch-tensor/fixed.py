import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Ratings(Dataset):
    """(user, item, extra features) -> standardised rating."""

    def __init__(self, n=640, users=20, items=25):
        self.u = torch.randint(0, users, (n,))
        self.i = torch.randint(0, items, (n,))
        self.extra = torch.randn(n, 3)
        pu, qi = torch.randn(users, 2), torch.randn(items, 2)
        r = (pu[self.u] * qi[self.i]).sum(1) + 0.5 * self.extra[:, 0]
        self.r = (r - r.mean()) / r.std()

    def __len__(self):
        return len(self.r)

    def __getitem__(self, k):
        return self.u[k], self.i[k], self.extra[k], self.r[k]


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(20, 8)
        self.item = nn.Embedding(25, 8)
        self.mlp = nn.Sequential(nn.Linear(16 + 3, 48), nn.ReLU(), nn.Linear(48, 1))

    def forward(self, u, i, extra):
        pair = torch.cat([self.user(u), self.item(i)], dim=1)
        pair = pair.to(torch.float32)
        return self.mlp(torch.cat([pair, extra], dim=1)).flatten()


if __name__ == "__main__":
    torch.manual_seed(14)
    loader = DataLoader(Ratings(), batch_size=64, shuffle=True)
    rec = Recommender()
    optimizer = torch.optim.Adam(rec.parameters(), lr=1e-2)
    for epoch in range(6):
        mse = 0.0
        for u, i, extra, r in loader:
            loss = F.mse_loss(rec(u, i, extra), r)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mse += loss.item() / len(loader)
        print(f"epoch {epoch} mse {mse:.4f}")
