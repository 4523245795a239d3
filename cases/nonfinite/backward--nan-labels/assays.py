import torch
from torch.utils.data import Dataset

ASSAYS = ("solubility", "toxicity", "binding")


class AssayTable(Dataset):
    """Molecules with up to three measured activities; what was not measured is NaN."""

    n_features = 32

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = (torch.rand(n, self.n_features, generator=g) < 0.3).float()
        mix = torch.randn(self.n_features, len(ASSAYS), generator=g) / 3
        self.y = self.x @ mix + 0.1 * torch.randn(n, len(ASSAYS), generator=g)
        missing = torch.rand(self.y.shape, generator=g) < 0.4
        self.y[missing] = float("nan")

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]
