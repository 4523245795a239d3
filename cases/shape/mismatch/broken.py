import torch
from torch import nn


class BilinearRecommender(nn.Module):
    """score = user^T R_rel item, one interaction matrix per relation."""

    def __init__(self, n_users, n_items, n_relations, user_dim=16, item_dim=12):
        super().__init__()
        self.user = nn.Embedding(n_users, user_dim)
        self.item = nn.Embedding(n_items, item_dim)
        self.relation = nn.Parameter(torch.randn(n_relations, user_dim, user_dim) * 0.1)  # ORIGIN

    def forward(self, u, r, i):
        return torch.einsum("bu,bui,bi->b", self.user(u), self.relation[r], self.item(i))


def triples(n):
    u, r, i = torch.randint(30, (n,)), torch.randint(4, (n,)), torch.randint(50, (n,))
    liked = ((u + r + i) % 2).float()
    return u, r, i, liked


def main():
    torch.manual_seed(2024)
    model = BilinearRecommender(n_users=30, n_items=50, n_relations=4)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(4):
        u, r, i, liked = triples(600)
        for part in torch.randperm(600).split(100):
            score = model(u[part], r[part], i[part])
            loss = bce(score, liked[part])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, "bce", loss.item())


if __name__ == "__main__":
    main()
