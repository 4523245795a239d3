import torch
from torch import nn
from torch.utils.data import DataLoader

SLOTS, SIDE = 2, 16


def scene(gen):
    """one or two rectangles, the left one first; boxes as x1, y1, x2, y2 in 0..1"""
    count = int(torch.randint(1, SLOTS + 1, (1,), generator=gen))
    img = 0.1 * torch.randn(SIDE, SIDE, generator=gen) - 0.2
    boxes = []
    for k in range(count):
        w, h = (int(v) for v in torch.randint(3, 6, (2,), generator=gen))
        x = 8 * k + int(torch.randint(0, 9 - w, (1,), generator=gen))
        y = int(torch.randint(1, 10, (1,), generator=gen))
        img[y:y + h, x:x + w] += 1.2
        boxes.append([x, y, x + w, y + h])
    return img, torch.tensor(boxes) / SIDE


def collate(items):
    imgs, boxes = zip(*items)
    padded = torch.zeros(len(items), SLOTS, 4)  # empty slots stay all zero
    valid = torch.zeros(len(items), SLOTS, dtype=torch.bool)
    for k, b in enumerate(boxes):
        padded[k, :len(b)] = b
        valid[k, :len(b)] = True
    return torch.stack(imgs), padded, valid


def iou(a, b):
    wh = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    inter = wh.prod(-1)
    area = lambda r: (r[..., 2:] - r[..., :2]).prod(-1)
    return inter / (area(a) + area(b) - inter)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 64), nn.ReLU(), nn.Linear(64, SLOTS * 5))

    def forward(self, img):
        out = self.net(img).view(-1, SLOTS, 5)
        centre, size = out[..., :2].sigmoid(), 0.1 + 0.4 * out[..., 2:4].sigmoid()
        return torch.cat([centre - size / 2, centre + size / 2], -1), out[..., 4]


gen = torch.Generator().manual_seed(2)
torch.manual_seed(2)
loader = DataLoader([scene(gen) for _ in range(384)], batch_size=32, shuffle=True, collate_fn=collate)
model = Detector()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(5):
    for img, boxes, valid in loader:
        pred, score = model(img)
        overlap = iou(pred[valid], boxes[valid])
        gap = (pred[valid] - boxes[valid]).abs().sum(-1)
        loss = (1 - overlap + gap).mean() + nn.functional.binary_cross_entropy_with_logits(score, valid.float())
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} loss {loss.item():.4f} mean IoU {overlap.mean().item():.3f}")
