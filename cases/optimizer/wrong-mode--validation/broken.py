import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class ConvNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.c1 = nn.Conv2d(1, 12, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(12)
        self.c2 = nn.Conv2d(12, 24, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(24)
        self.drop = nn.Dropout(0.4)
        self.fc = nn.Linear(24, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.c1(x)))
        x = torch.relu(self.bn2(self.c2(x)))
        return self.fc(self.drop(x.mean(dim=(2, 3))))


def textures(n):
    y = torch.randint(0, 3, (n,))
    grid = torch.arange(10.0)
    rows, cols = grid[:, None].expand(10, 10), grid[None, :].expand(10, 10)
    patterns = torch.stack([torch.sin(1.6 * rows), torch.sin(1.6 * cols), torch.sin(1.1 * (rows + cols))])
    x = patterns[y][:, None] + 0.8 * torch.randn(n, 1, 10, 10)
    return TensorDataset(x, y)


def evaluate(net, loader):
    correct, n = 0, 0
    with torch.no_grad():
        for x, y in loader:
            out = net(x)  # ORIGIN
            correct += (out.argmax(1) == y).sum().item()
            n += y.numel()
    return correct / n


def main():
    torch.manual_seed(1)
    train_set, val_set = random_split(textures(400), [320, 80])
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=20)
    net = ConvNet(3)
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(4):
        net.train()
        losses = []
        for x, y in train_loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch}  loss {sum(losses) / len(losses):.3f}  val acc {evaluate(net, val_loader):.3f}")


main()
