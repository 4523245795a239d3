import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader


class ShapesDataset(Dataset):
    """32x32 scenes: 0 background, 1 square, 2 disc."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.centers = torch.randint(8, 24, (n, 2, 2), generator=g)
        self.centers[:, 1] = (self.centers[:, 0] + 12) % 32      # keep the two apart
        self.centers[21, 1] = self.centers[21, 0] + 3
        self.noise = 0.1 * torch.randn(n, 1, 32, 32, generator=g)

    def __len__(self):
        return len(self.centers)

    def __getitem__(self, i):
        rows, cols = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
        (r0, c0), (r1, c1) = self.centers[i].tolist()
        square = ((rows - r0).abs() <= 3) & ((cols - c0).abs() <= 3)
        disc = (rows - r1) ** 2 + (cols - c1) ** 2 <= 12
        mask = torch.zeros(32, 32, dtype=torch.long)
        mask[square] = 1
        mask[disc] = 2
        overlap = square & disc
        if overlap.any():
            # annotators could not agree where shapes overlap
            mask[overlap] = 255
        image = 0.5 * square.float() - 0.5 * disc.float() + self.noise[i, 0]
        return image.unsqueeze(0), mask


class SegTrainer:
    def __init__(self, net, lr):
        self.net = net
        self.opt = torch.optim.Adam(net.parameters(), lr=lr)
        self.loss_fn = nn.CrossEntropyLoss(ignore_index=255)

    def fit(self, loader, epochs):
        for ep in range(epochs):
            losses = []
            for image, mask in loader:
                loss = self.loss_fn(self.net(image), mask)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                losses.append(loss.item())
            print("epoch", ep, "loss", round(sum(losses) / len(losses), 4))


torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
    nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
    nn.Conv2d(8, 3, 1),
)
SegTrainer(net, lr=5e-3).fit(DataLoader(ShapesDataset(48, seed=2), batch_size=8, shuffle=True), epochs=4)
