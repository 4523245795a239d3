import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

from metrics import PixelAccuracy


def shapes(n):
    """Segment a bright disc from a noisy background."""
    grid = torch.arange(32.0)
    cy, cx = torch.rand(n, 1, 1) * 20 + 6, torch.rand(n, 1, 1) * 20 + 6
    mask = ((grid[None, :, None] - cy) ** 2 + (grid[None, None, :] - cx) ** 2 < 110).long()
    img = mask.float()[:, None] + 0.5 * torch.randn(n, 1, 32, 32)
    return TensorDataset(img, mask)


def main():
    torch.manual_seed(0)
    loader = DataLoader(shapes(128), batch_size=16, shuffle=True)
    net = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 2, 5, padding=2))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    accuracy = PixelAccuracy()
    for epoch in range(6):
        accuracy.reset()
        total = 0.0
        for img, mask in loader:
            logits = net(img)
            loss = nn.functional.cross_entropy(logits, mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            accuracy.update(logits, mask)
        print(f"epoch {epoch}  loss {total / len(loader):.4f}  pixel acc {accuracy.compute():.4f}")


if __name__ == "__main__":
    main()
