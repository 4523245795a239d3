import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 24


class Shelf(Dataset):
    """pictures with one product each; annotations in COCO json style"""

    def __init__(self, n):
        g = torch.Generator().manual_seed(5)
        self.images, self.annotations = [], []
        for k in range(n):
            w, h = (int(v) for v in torch.randint(4, 8, (2,), generator=g))
            x, y = (int(v) for v in torch.randint(8, 16, (2,), generator=g))
            img = 0.2 * torch.randn(SIDE, SIDE, generator=g) - 0.3
            img[y:y + h, x:x + w] += 1.5
            self.images.append(img)
            self.annotations.append({"image_id": k, "category_id": 1, "bbox": [x, y, w, h]})

    def __len__(self):
        return len(self.images)

    def __getitem__(self, k):
        x, y, w, h = self.annotations[k]["bbox"]
        box = torch.tensor([x, y, x + w, y + h]) / SIDE
        return self.images[k], box


def giou(p, t):
    px1, py1, px2, py2 = p.unbind(1)
    tx1, ty1, tx2, ty2 = t.unbind(1)
    inter = (torch.min(px2, tx2) - torch.max(px1, tx1)).clamp(min=0) * (torch.min(py2, ty2) - torch.max(py1, ty1)).clamp(min=0)
    union = (px2 - px1) * (py2 - py1) + (tx2 - tx1) * (ty2 - ty1) - inter
    hull = (torch.max(px2, tx2) - torch.min(px1, tx1)) * (torch.max(py2, ty2) - torch.min(py1, ty1))
    return inter / union - (hull - union) / hull


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(SIDE * SIDE, 64)
        self.fc2 = nn.Linear(64, 4)

    def forward(self, img):
        corner, size = self.fc2(F.relu(self.fc1(img.flatten(1)))).chunk(2, dim=1)
        corner = corner.sigmoid()
        return torch.cat([corner, corner + 0.05 + 0.5 * size.sigmoid()], dim=1)


torch.manual_seed(8)
loader = DataLoader(Shelf(320), batch_size=32, shuffle=True)
model = Regressor()
optim = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(5):
    epoch_loss = 0.0
    for img, box in loader:
        loss = (1 - giou(model(img), box)).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        epoch_loss += loss.item() / len(loader)
    print(f"epoch {epoch} giou loss {epoch_loss:.4f}")
