import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class DotFields(Dataset):
    """10x10 fields with dots; target: number of dots in every column"""

    def __init__(self, n):
        g = torch.Generator().manual_seed(n)
        self.dots = (torch.rand(n, 10, 10, generator=g) < 0.15).float()
        self.noise = 0.2 * torch.randn(n, 10, 10, generator=g)

    def __len__(self):
        return len(self.dots)

    def __getitem__(self, i):
        image = (self.dots[i] + self.noise[i] - 0.15) / 0.4
        return image.unsqueeze(0), self.dots[i].sum(0)


class ColumnCounter(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.conv_in = nn.Conv2d(1, width, 3, padding=1)
        self.conv_out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        density = self.conv_out(torch.relu(self.conv_in(x))).squeeze(1)
        return density.sum(dim=1)  # over the rows


def column_loss(pred, counts):
    return ((pred - counts) ** 2).mean()


torch.manual_seed(0)
loader = DataLoader(DotFields(97), batch_size=8, shuffle=True)
net = ColumnCounter()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(5):
    last = []
    for x, counts in loader:
        opt.zero_grad()
        loss = column_loss(net(x), counts)
        loss.backward()
        opt.step()
        last.append(loss.item())
    print(f"epoch {epoch}: mean loss {sum(last) / len(last):.4f}")
