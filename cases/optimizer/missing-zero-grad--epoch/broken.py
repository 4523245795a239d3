import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader


class Blobs(Dataset):
    """Tiny 'images': a bright bar, horizontal / vertical / diagonal."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.kind = torch.randint(0, 3, (n,), generator=g)
        self.pos = torch.randint(2, 10, (n,), generator=g)
        self.noise = torch.randn(n, 1, 12, 12, generator=g) * 0.9

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        img = self.noise[i].clone()
        k, p = int(self.kind[i]), int(self.pos[i])
        if k == 0:
            img[0, p, :] += 2
        elif k == 1:
            img[0, :, p] += 2
        else:
            img[0] += 2 * torch.eye(12).roll(p - 6, 0)
        return img, k


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        return self.fc(x.amax(dim=(2, 3)))


def train(net, loader, epochs):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for ep in range(epochs):
        opt.zero_grad()
        running = 0.0
        for img, label in loader:
            loss = F.cross_entropy(net(img), label)
            loss.backward()  # ORIGIN
            opt.step()
            running += loss.item()
        print("epoch", ep, "loss", round(running / len(loader), 4))


torch.manual_seed(3)
train(Net(), DataLoader(Blobs(384, seed=1), batch_size=32, shuffle=True), epochs=5)
