# Road scenes at two resolutions, resized to a common 24x24. 255 marks pixels nobody labelled.
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

N_CLASSES = 4
IGNORE = 255


class Resize:
    def __init__(self, size):
        self.size = size

    def __call__(self, image, mask):
        image = F.interpolate(image[None], size=self.size, mode="bilinear", align_corners=False)[0]
        mask = F.interpolate(mask[None, None].float(), size=self.size, mode="bilinear")[0, 0].long()  # ORIGIN
        return image, mask


class RoadScenes(Dataset):
    def __init__(self, count, transform):
        rng = np.random.default_rng(12)
        self.items = []
        for k in range(count):
            side = 32 if k % 2 else 40
            mask = np.zeros((side, side), dtype=np.uint8)
            for c in range(1, N_CLASSES):
                top, left = rng.integers(0, side - 12, 2)
                mask[top:top + 12, left:left + 12] = c
            image = rng.normal(0, 0.15, (3, side, side)).astype(np.float32)
            for c in range(N_CLASSES):
                image[c % 3] += (mask == c) * (1.0 if c < 3 else -1.0)
            mask[:, -3:] = IGNORE
            self.items.append((image, mask))
        self.transform = transform

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        image, mask = self.items[idx]
        return self.transform(torch.from_numpy(image), torch.from_numpy(mask))


def main():
    torch.manual_seed(1)
    loader = DataLoader(RoadScenes(40, Resize((24, 24))), batch_size=8, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, N_CLASSES, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        for step, (images, masks) in enumerate(loader):
            logits = model(images)
            loss = F.cross_entropy(logits, masks, ignore_index=IGNORE)
            opt.zero_grad()
            loss.backward()
            opt.step()
        valid = masks != IGNORE
        acc = (logits.argmax(1) == masks)[valid].float().mean()
        print(f"{epoch}: loss {loss.item():.3f}, pixel accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
