"""Deep Sets on lidar sweeps under CPU autocast."""
import torch
import torch.nn as nn


class DeepSet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.rho = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4))

    def forward(self, cloud):
        points = self.phi(cloud)
        pooled = points.sum(dim=1, dtype=torch.float32)
        return self.rho(pooled)


def sweep(n_points, gen, batch=4):
    """Boxes, poles, walls and ground as stretched blobs, coordinates in decimetres."""
    kind = torch.randint(4, (batch,), generator=gen)
    stretch = torch.tensor([[1., 1, 1], [.1, .1, 3], [3, .1, 1], [3, 3, .1]])[kind]
    cloud = torch.randn(batch, n_points, 3, generator=gen) * stretch.unsqueeze(1) * 60
    return cloud, kind


torch.manual_seed(13)
gen = torch.Generator().manual_seed(13)
net = DeepSet()
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
ce = nn.CrossEntropyLoss()
schedule = [200] * 6 + [600] * 6 + [6000] * 6          # sensor resolution
for i, n_points in enumerate(schedule):
    cloud, kind = sweep(n_points, gen)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = ce(net(cloud), kind)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 3 == 2:
        print(f"{i:2d} points={n_points} loss={loss.item():.3f}")
