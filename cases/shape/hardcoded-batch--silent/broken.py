import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class ConvAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))
        self.up = nn.Sequential(
            nn.ReLU(),
            nn.ConvTranspose2d(4, 8, 2, stride=2),
            nn.ReLU(),
            nn.Conv2d(8, 1, 3, padding=1),
        )

    def forward(self, x):
        return self.up(self.down(x))


def reconstruction_loss(recon, x):
    err = (recon - x) ** 2
    per_image = err.view(32, -1).sum(dim=1)  # ORIGIN
    return per_image.mean()


def stripes(n):
    phase = torch.rand(n, 1, 1, 1) * 6.28
    slope = torch.randn(n, 1, 1, 1)
    u = torch.linspace(0, 6.28, 8)
    return torch.sin(u.view(1, 1, 1, 8) + slope * u.view(1, 1, 8, 1) + phase)


torch.manual_seed(14)
loader = DataLoader(TensorDataset(stripes(208)), batch_size=32, shuffle=True)
model = ConvAutoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(5):
    for step, (x,) in enumerate(loader):
        loss = reconstruction_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (0, len(loader) - 1):
            print(f"epoch {epoch} batch {step} loss per image {loss.item():.3f}")
