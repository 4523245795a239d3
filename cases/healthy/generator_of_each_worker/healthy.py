"""A generator that the dataset makes when it is first asked for a sample: in each worker another one, from the worker's own seed."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Spectra(Dataset):
    def __init__(self, size: int = 96) -> None:
        draw = np.random.default_rng(1)
        self.kinds = draw.integers(0, 2, size)
        self.curves = (draw.normal(size=(size, 24)) + self.kinds[:, None]).astype(np.float32)

    def __len__(self) -> int:
        return len(self.curves)

    @property
    def noise(self) -> np.random.Generator:
        if not hasattr(self, "_noise"):
            worker = get_worker_info()
            self._noise = np.random.default_rng(worker.seed if worker is not None else 0)
        return self._noise

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        shifted = np.roll(self.curves[index], self.noise.integers(0, 4))
        return torch.from_numpy(shifted + self.noise.normal(0, 0.05, 24).astype(np.float32)), int(self.kinds[index])


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(Spectra(), batch_size=12, shuffle=True, num_workers=2)
    for _ in range(2):
        for curves, kinds in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(curves), kinds).backward()
            optimizer.step()
