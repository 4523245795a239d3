import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader

SEED = 2024


class NoisyPatches(Dataset):
    """Denoising: returns a corrupted 10x10 patch and the clean one."""

    def __init__(self, n, sigma):
        base = torch.randn(n, 1, 5, 5)
        self.clean = nn.functional.interpolate(base, scale_factor=2, mode="bilinear", align_corners=False)
        self.sigma = sigma

    def __len__(self):
        return self.clean.shape[0]

    def __getitem__(self, i):
        clean = self.clean[i]
        noise = torch.randn_like(clean)  # ORIGIN
        return clean + self.sigma * noise, clean


def fit_epoch(model, loader, optimizer):
    torch.manual_seed(SEED)      # reproducible epochs
    total = 0.0
    for noisy, clean in loader:
        optimizer.zero_grad()
        restored = noisy - model(noisy)
        loss = (restored - clean).pow(2).mean()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def build():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 1, 3, padding=1),
    )


torch.manual_seed(SEED)
patches = NoisyPatches(160, sigma=0.5)
loader = DataLoader(patches, batch_size=16, shuffle=True)
model = build()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(5):
    mse = fit_epoch(model, loader, optimizer)
    print(f"[{epoch}] restoration mse {mse:.4f}")
