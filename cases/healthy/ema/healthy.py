import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

from shadow import Shadow


def spiral(n):
    r = torch.linspace(0.2, 1.0, n // 2).repeat(2)
    arm = torch.arange(2).repeat_interleave(n // 2)
    theta = r * 5 + arm * torch.pi
    xy = torch.stack([r * theta.cos(), r * theta.sin()], 1) + 0.03 * torch.randn(n, 2)
    return TensorDataset(xy, arm)


@torch.inference_mode()
def accuracy(net, loader):
    was_training = net.training
    net.eval()
    hits = sum((net(x).argmax(-1) == y).sum().item() for x, y in loader)
    net.train(was_training)
    return hits / len(loader.dataset)


def main():
    torch.manual_seed(9)
    train_set, val_set = random_split(spiral(400), [320, 80])
    train = DataLoader(train_set, batch_size=32, shuffle=True)
    val = DataLoader(val_set, batch_size=80)

    net = nn.Sequential(nn.Linear(2, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    # built before the (no-op) move: parameters keep their identity
    opt = optim.AdamW(net.parameters(), lr=5e-3)
    net.to("cpu")
    ema = Shadow(net, decay=0.99)

    for epoch in range(8):
        total = 0.0
        for x, y in train:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update(net)
            total += loss.item()
        if epoch % 3 == 1:
            print(f"epoch {epoch} loss {total / len(train):.3f} live {accuracy(net, val):.3f} ema {accuracy(ema.module, val):.3f}")


if __name__ == "__main__":
    main()
