import torch
import torch.nn.functional as F
from torch import nn

B = 32          # mini-batch
CLASSES = 6
torch.manual_seed(21)


class Textures(torch.utils.data.Dataset):
    def __init__(self, n=72):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, idx):
        label = idx % CLASSES
        g = torch.Generator().manual_seed(idx)
        tile = torch.rand(3, 16, 16, generator=g)
        tile[:, :: label + 1] += 0.7
        return tile, label


class TextureNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 16, 3, padding=1)
        self.b = nn.Conv2d(16, 16, 3, padding=1, stride=2)
        self.out = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = F.relu(self.a(x))
        x = F.relu(self.b(x))
        x = x.view(B, 16, -1)  # ORIGIN
        x = x.mean(-1)
        return self.out(x)


def fit(net, epochs):
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    loader = torch.utils.data.DataLoader(Textures(), batch_size=B, shuffle=True)
    for ep in range(epochs):
        for n_step, (tiles, label) in enumerate(loader, start=1):
            scores = net(tiles)
            loss = F.cross_entropy(scores, label)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", ep, "loss", loss.item(), "after", n_step, "steps")


fit(TextureNet(), epochs=2)
