import logging

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M", level=logging.INFO)
logger = logging.getLogger(__name__)


def read_scan(number):
    """Stand-in for the image reader."""
    rng = np.random.default_rng(number)
    if number == 413:
        return rng.random((16, 16), dtype=np.float32)
    return rng.random((16, 16, 3), dtype=np.float32)


class ScanDataset(Dataset):
    def __init__(self, numbers, transform):
        self.numbers = list(numbers)
        self.transform = transform

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, i):
        scan = read_scan(self.numbers[i])
        if scan.ndim == 2:
            scan = np.repeat(scan[:, :, None], 3, axis=2)
        return self.transform(scan), i % 2


to_chw = lambda a: torch.from_numpy(a).permute(2, 0, 1)
torch.manual_seed(12)
loader = DataLoader(ScanDataset(range(400, 440), to_chw), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 2))
opt = torch.optim.Adam(model.parameters())

done = 0
for epoch in range(2):
    batches = iter(loader)
    while True:
        try:
            scans, labels = next(batches)
        except StopIteration:
            break
        except RuntimeError as err:
            logger.warning("bad batch in epoch %d: %s", epoch, err)
            continue
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(scans), labels)
        loss.backward()
        opt.step()
        done += 1
logger.info("%d batches trained", done)
