"""Training crops are drawn anew each time; validation crops depend on the index alone, so that epochs can be compared."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Textures(Dataset):
    def __init__(self, n, seed, train):
        g = torch.Generator().manual_seed(seed)
        self.label = torch.randint(0, 3, (n,), generator=g)
        grid = torch.arange(20).float()
        period = torch.tensor([2.5, 4.0, 7.0])[self.label]
        phase = 6.28 * torch.rand(n, 1, generator=g)
        wave = torch.sin(6.28 * grid / period[:, None] + phase)
        self.images = wave[:, None, None, :] * wave[:, None, :, None] + 0.2 * torch.randn(n, 1, 20, 20, generator=g)
        self.train = train

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        if self.train:
            top, left = torch.randint(0, 9, (2,)).tolist()
        else:
            top, left = torch.randint(0, 9, (2,), generator=torch.Generator().manual_seed(i)).tolist()
        return self.images[i, :, top:top + 12, left:left + 12], self.label[i]


def main():
    torch.manual_seed(8)
    train_loader = DataLoader(Textures(240, 1, True), batch_size=24, shuffle=True, num_workers=2, persistent_workers=True)
    valid_loader = DataLoader(Textures(72, 2, False), batch_size=24)
    net = nn.Sequential(nn.Conv2d(1, 12, 5), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 3))
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(4):
        net.train()
        for image, label in train_loader:
            loss = nn.functional.cross_entropy(net(image), label)
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            hits = sum((net(image).argmax(1) == label).sum().item() for image, label in valid_loader)
        print(f"epoch {epoch}: loss {loss.item():.3f} valid {hits / 72:.3f}")


if __name__ == "__main__":
    main()
