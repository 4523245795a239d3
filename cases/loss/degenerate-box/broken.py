import torch
from torch import nn

S = 16


def render(n):
    """White rectangle on a dark noisy picture, plus its box in relative coordinates."""
    cx, cy = 0.35 + 0.3 * torch.rand(2, n)
    w, h = 0.18 + 0.12 * torch.rand(2, n)
    grid = (torch.arange(S) + 0.5) / S
    in_x = (grid - cx[:, None]).abs() <= w[:, None] / 2
    in_y = (grid - cy[:, None]).abs() <= h[:, None] / 2
    img = torch.einsum("ny,nx->nyx", in_y.float(), in_x.float())
    img = 2 * img - 0.3 + 0.1 * torch.randn(n, S, S)
    boxes = torch.stack([cx, cy, w, h], dim=1)  # ORIGIN
    return img, boxes


def box_iou(a, b):
    lt = torch.maximum(a[:, :2], b[:, :2])
    rb = torch.minimum(a[:, 2:], b[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(dim=1)
    area_a = (a[:, 2:] - a[:, :2]).clamp(min=0).prod(dim=1)
    area_b = (b[:, 2:] - b[:, :2]).clamp(min=0).prod(dim=1)
    return inter / (area_a + area_b - inter + 1e-6)


class BoxHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(S * S, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, img):
        centre, size = self.net(img).sigmoid().chunk(2, dim=1)
        return torch.cat([centre - size / 2, centre + size / 2], dim=1)


torch.manual_seed(6)
detector = BoxHead()
opt = torch.optim.Adam(detector.parameters(), lr=3e-3)
for step in range(60):
    img, boxes = render(32)
    iou = box_iou(detector(img), boxes)
    loss = (1 - iou).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 12 == 0 or step == 59:
        print(f"step {step:2d} loss {loss.item():.4f} mean IoU {iou.mean().item():.3f}")
