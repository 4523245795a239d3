"""One-stage detector on a 6x6 grid. Pictures hold 0 to 3 squares, so box lists may be empty, even for a whole batch."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

GRID, CELL = 6, 4
SIDE = GRID * CELL


class Squares(Dataset):
    counts = [0, 2, 1, 0, 3, 1, 0, 2]

    def __init__(self, n):
        g = torch.Generator().manual_seed(77)
        self.items = [self.draw(0 if 16 <= i < 24 else self.counts[i % 8], g) for i in range(n)]

    @staticmethod
    def draw(k, g):
        img = 0.1 * torch.randn(1, SIDE, SIDE, generator=g)
        xy = torch.randint(0, SIDE - 6, (k, 2), generator=g)
        wh = torch.randint(3, 7, (k, 2), generator=g)
        for (x, y), (w, h) in zip(xy.tolist(), wh.tolist()):
            img[0, y : y + h, x : x + w] = 1.0
        return img, torch.cat([xy, xy + wh], dim=1).float()      # (k, 4), xyxy

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU())
        self.objectness = nn.Sequential(nn.Conv2d(32, 1, 1), nn.Sigmoid())
        self.box = nn.Conv2d(32, 4, 1)

    def forward(self, x):
        f = self.features(x)
        score = self.objectness(f) if not self.training else self.objectness[0](f)  # logits for the loss
        return score.squeeze(1), self.box(f).permute(0, 2, 3, 1)


def assign(boxes):
    """Indices (image, row, column) of the responsible cells, and offsets relative to their centres."""
    image = torch.cat([torch.full((len(b),), i) for i, b in enumerate(boxes)])
    flat = torch.cat(boxes)                                      # (0, 4) if nobody has a box
    centre = (flat[:, :2] + flat[:, 2:]) / 2
    cell = (centre / CELL).long().clamp(max=GRID - 1)
    offset = (flat - (cell * CELL + CELL / 2).repeat(1, 2)) / CELL
    return (image, cell[:, 1], cell[:, 0]), offset


def loss_fn(logits, reg, boxes):
    where, offset = assign(boxes)
    truth = torch.zeros_like(logits)
    truth[where] = 1.0
    obj = F.binary_cross_entropy_with_logits(logits, truth, pos_weight=torch.tensor(5.0))
    box = F.smooth_l1_loss(reg[where], offset, reduction="sum") / max(len(offset), 1)
    return obj, box


torch.manual_seed(0)
loader = DataLoader(Squares(64), batch_size=8, collate_fn=lambda s: (torch.stack([a for a, _ in s]), [b for _, b in s]))
model = Detector().train()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(6):
    sums, without = torch.zeros(2), 0
    for images, boxes in loader:
        parts = loss_fn(*model(images), boxes)
        opt.zero_grad()
        sum(parts).backward()
        opt.step()
        sums += torch.stack(parts).detach()
        without += all(len(b) == 0 for b in boxes)
    if epoch % 2 == 1:
        print(f"epoch {epoch} objectness {sums[0] / len(loader):.3f} box {sums[1] / len(loader):.3f} (batches without any box: {without})")

model.eval()
with torch.no_grad():
    score, _ = model(torch.zeros(1, 1, SIDE, SIDE))
print("boxes on a blank picture:", int((score > 0.5).sum()))
