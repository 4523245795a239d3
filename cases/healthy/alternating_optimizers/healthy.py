# Matrix completion with side information, block coordinate descent: items move while users are held, and the other way round.
import torch
from torch import nn

torch.manual_seed(13)
U, I, K = 40, 30, 4
true = torch.randn(U, K) @ torch.randn(K, I) / K ** 0.5
seen = torch.rand(U, I) < 0.5

user_side = nn.ModuleDict({"factors": nn.Embedding(U, K), "bias": nn.Embedding(U, 1)})
item_side = nn.ModuleDict({"factors": nn.Embedding(I, K), "bias": nn.Embedding(I, 1)})
for side in (user_side, item_side):
    nn.init.normal_(side["factors"].weight, std=0.3)
    nn.init.zeros_(side["bias"].weight)

opt_u = torch.optim.Adam(user_side.parameters(), lr=0.05)
opt_i = torch.optim.Adam(item_side.parameters(), lr=0.05)


def predict():
    # (U, K) @ (K, I) + (U, 1) + (1, I)
    return user_side["factors"].weight @ item_side["factors"].weight.T + user_side["bias"].weight + item_side["bias"].weight.T


def masked_loss():
    return (predict() - true)[seen].pow(2).mean()


for round_ in range(30):
    for opt, moving, held in ((opt_u, user_side, item_side), (opt_i, item_side, user_side)):
        moving.requires_grad_(True)
        held.requires_grad_(False)
        for _ in range(3):
            opt.zero_grad()
            loss = masked_loss()
            loss.backward()
            opt.step()
        opt.zero_grad()
    if round_ % 6 == 0 or round_ == 29:
        with torch.no_grad():
            rest = (predict() - true)[~seen].pow(2).mean().item()
        print(f"round {round_:2d} fit {loss.item():.4f} held-out {rest:.4f}")
