import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(9)


class BoxHead(nn.Module):
    """Predicts (cx, cy, w, h) in the unit square."""

    def __init__(self, n_features=32):
        super().__init__()
        self.hidden = nn.Linear(n_features, 32)
        self.final = nn.Linear(32, 4)

    def forward(self, feats):
        box = torch.sigmoid(self.final(F.relu(self.hidden(feats))))
        centre = box[:, :2]
        size = box[:, 2:]
        size = size * 0.5
        return torch.cat([centre - size, centre + size], dim=1)


def make_scene(n):
    corner = torch.rand(n, 2) * 0.5
    extent = torch.rand(n, 2) * 0.4 + 0.1
    boxes = torch.cat([corner, corner + extent], dim=1)
    feats = torch.cat([boxes, boxes ** 2], dim=1).repeat(1, 4)
    return feats, boxes


def fit(head, steps):
    opt = torch.optim.Adam(head.parameters(), lr=1e-2)
    best = float("inf")
    for step in range(steps):
        feats, boxes = make_scene(24)
        loss = F.l1_loss(head(feats), boxes)
        opt.zero_grad()
        try:
            loss.backward()
            opt.step()
            best = min(best, loss.item())
        except Exception as exc:
            print(f"[{step}] {type(exc).__name__}: {exc}")
    return best


print("best l1:", fit(BoxHead(), steps=12))
