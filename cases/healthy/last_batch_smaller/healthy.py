"""97 pictures in batches of 16: the last batch holds one. Everything below copes with that."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())  # 64 values per channel even for one picture
        self.rows = nn.GRU(8 * 8, 16, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.out = nn.Linear(16, 1)

    def forward(self, img):
        f = self.conv(img)                                   # (B, 8, 8, 8)
        seq = f.permute(0, 2, 1, 3).reshape(f.size(0), 8, -1)
        h0 = torch.zeros(1, seq.size(0), 16)
        _, h = self.rows(seq, h0)
        return self.out(self.norm(h[-1])).squeeze(-1)        # (B,), also for B = 1


def make(n):
    img = torch.rand(n, 1, 8, 8)
    slope = torch.randn(n)
    img = img + slope.view(-1, 1, 1, 1) * torch.linspace(-1, 1, 8).view(1, 1, 8, 1)
    return TensorDataset(img, slope)


def main():
    torch.manual_seed(190)
    train = DataLoader(make(97), batch_size=16, shuffle=True, drop_last=False)
    valid = DataLoader(make(33), batch_size=16)
    net, sizes = Net(), []
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(6):
        net.train()
        for img, slope in train:
            loss = nn.functional.mse_loss(net(img), slope)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sizes.append(len(img))
        net.eval()
        with torch.no_grad():
            err = sum((net(img) - slope).square().sum().item() for img, slope in valid) / len(valid.dataset)
        if epoch % 2 == 1:
            print(f"epoch {epoch} valid mse {err:.4f}")
    print("batch sizes of an epoch:", sizes[-len(train):])


main()
