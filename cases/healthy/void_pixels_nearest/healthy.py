"""Land cover with unlabelled pixels: masks are resized with nearest neighbour and 255 is ignored by the loss."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOID = 255
CLASSES = ("water", "forest", "field", "road", "town")      # no town in this small sample


class Tiles(Dataset):
    def __init__(self, n, side=20):
        g = torch.Generator().manual_seed(7)
        self.images, self.masks = [], []
        for k in range(n):
            size = 24 + 4 * (k % 3)
            coarse = torch.randint(0, 4, (4, 4), generator=g)
            mask = F.interpolate(coarse[None, None].float(), size=(size, size), mode="nearest")[0, 0]
            image = F.one_hot(mask.long(), 4).permute(2, 0, 1)[:3].float() - 0.25
            image = image + 0.2 * torch.randn(image.shape, generator=g)
            mask[torch.rand(size, size, generator=g) < 0.1] = VOID
            self.images.append(image)
            self.masks.append(mask.to(torch.uint8))
        self.side = (side, side)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = F.interpolate(self.images[i][None], size=self.side, mode="bilinear", align_corners=False)[0]
        mask = F.interpolate(self.masks[i][None, None].float(), size=self.side, mode="nearest")[0, 0].long()
        return image, mask


torch.manual_seed(7)
loader = DataLoader(Tiles(60), batch_size=10, shuffle=True)
net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, len(CLASSES), 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(4):
    right = known = 0
    for image, mask in loader:
        logits = net(image)
        loss = F.cross_entropy(logits, mask, ignore_index=VOID)
        opt.zero_grad()
        loss.backward()
        opt.step()
        labelled = mask != VOID
        right += (logits.argmax(1)[labelled] == mask[labelled]).sum().item()
        known += labelled.sum().item()
    print(f"epoch {epoch}: pixel accuracy {right / known:.3f}")
