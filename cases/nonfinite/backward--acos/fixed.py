"""Register scans: predict the rotation that turns a point cloud back upright."""
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    n_clouds: int = 126
    n_points: int = 12
    batch_size: int = 14
    lr: float = 2e-3
    epochs: int = 4


def rotation(v):
    """Axis-angle vectors to matrices by the matrix exponential."""
    z = torch.zeros_like(v[..., 0])
    x, y, w = v.unbind(-1)
    skew = torch.stack([z, -w, y, w, z, -x, -y, x, z], dim=-1).view(*v.shape[:-1], 3, 3)
    return torch.linalg.matrix_exp(skew)


def geodesic(a, b):
    trace = torch.einsum("bij,bij->b", a, b)
    return torch.acos(((trace - 1) / 2).clamp(-1 + 1e-6, 1 - 1e-6))


class Aligner(nn.Module):
    def __init__(self, n_points):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3 * n_points, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.axis_angle = nn.Linear(32, 3)
        nn.init.zeros_(self.axis_angle.weight)
        nn.init.zeros_(self.axis_angle.bias)

    def forward(self, cloud):
        return rotation(self.axis_angle(self.body(cloud.flatten(1))))


def build(cfg):
    shape = torch.randn(cfg.n_points, 3)
    turn = 0.6 * torch.randn(cfg.n_clouds, 3)
    turn[5] = 0.0  # the reference scan itself
    R = rotation(turn)
    return TensorDataset(shape @ R.transpose(1, 2), R)


def train(cfg):
    torch.manual_seed(6)
    scans = build(cfg)
    loader = DataLoader(scans, batch_size=cfg.batch_size)
    model = Aligner(cfg.n_points)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        for cloud, R in loader:
            loss = geodesic(model(cloud), R).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"epoch {epoch} angle {torch.rad2deg(loss).item():.2f} deg")
    cloud, R = scans[:]
    with torch.no_grad():
        print(f"all scans {torch.rad2deg(geodesic(model(cloud), R)).mean().item():.2f} deg")


train(Config())
