import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class RoadScenes(Dataset):
    NUM_CLASSES = 4

    def __init__(self, length, side=32):
        self.length, self.side = length, side

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        mask = np.zeros((self.side, self.side), dtype=np.int64)
        for cls in range(1, self.NUM_CLASSES):
            r, c = rng.integers(0, self.side - 8, size=2)
            mask[r:r + 8, c:c + 8] = cls
        image = mask / 4 + rng.normal(0, 0.1, mask.shape)
        image = torch.from_numpy(image).float().unsqueeze(0)
        mask = torch.from_numpy(mask).unsqueeze(0)  # ORIGIN
        return image, mask


segmenter = nn.Sequential()
segmenter.add_module("c1", nn.Conv2d(1, 12, 3, padding=1))
segmenter.add_module("r1", nn.ReLU())
segmenter.add_module("c2", nn.Conv2d(12, 12, 3, padding=2, dilation=2))
segmenter.add_module("r2", nn.ReLU())
segmenter.add_module("head", nn.Conv2d(12, RoadScenes.NUM_CLASSES, 1))


def one_step(batch, optimizer, loss_fn):
    image, mask = batch
    loss = loss_fn(segmenter(image), mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(segmenter.parameters(), lr=1e-2)
    loss_fn = nn.CrossEntropyLoss(weight=torch.tensor([0.2, 1.0, 1.0, 1.0]))
    curve = []
    for batch in DataLoader(RoadScenes(40), batch_size=5):
        try:
            curve.append(one_step(batch, optimizer, loss_fn))
        except RuntimeError as problem:
            print("bad batch, ignored:", str(problem).splitlines()[0])
    print("loss curve:", [round(v, 3) for v in curve])


main()
