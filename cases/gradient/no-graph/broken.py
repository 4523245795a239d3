import torch
from torch import nn
import torch.nn.functional as F


class TemperatureScaled(nn.Module):
    """Wraps a classifier and returns calibrated log-probabilities."""

    def __init__(self, backbone, temperature=1.5):
        super().__init__()
        self.backbone = backbone
        self.temperature = temperature

    def forward(self, x):
        logits = self.backbone(x).data  # ORIGIN
        logits = logits - logits.amax(dim=1, keepdim=True)
        return F.log_softmax(logits / self.temperature, dim=1)


def two_moons(n, g):
    side = torch.randint(2, (n,), generator=g)
    angle = torch.rand(n, generator=g) * 3.1416
    x = torch.where(side == 0, angle.cos(), 1 - angle.cos())
    y = torch.where(side == 0, angle.sin(), 0.5 - angle.sin())
    return torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2, generator=g), side


g = torch.Generator().manual_seed(0)
torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
model = TemperatureScaled(backbone)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

failed = []
for step in range(25):
    x, side = two_moons(40, g)
    loss = F.nll_loss(model(x), side)
    optimizer.zero_grad()
    try:
        loss.backward()
        optimizer.step()
    except RuntimeError as e:
        failed.append(str(e))
    if step % 8 == 0:
        print(f"{step:3d}  nll {loss.item():.4f}")
print("updates that failed:", len(failed))
