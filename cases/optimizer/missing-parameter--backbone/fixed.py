import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(2, 16, 5, padding=2)
        self.conv2 = nn.Conv1d(16, 16, 5, padding=2)

    def forward(self, x):
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        return x.mean(-1)


class SignalNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(16, n_classes)

    def forward(self, x):
        return self.head(self.backbone(x))


def signals(n, length=40):
    y = torch.randint(0, 4, (n,))
    t = torch.linspace(0, 6.28, length)
    freq = (1 + 2 * y).float()[:, None]
    phase = torch.rand(n, 1) * 6.28
    x = torch.stack([torch.sin(freq * t + phase), torch.cos(freq * t + phase)], 1)
    return x + 0.2 * torch.randn_like(x), y


def configure(model, lr=1e-2):
    return torch.optim.Adam(model.parameters(), lr=lr)


def main():
    torch.manual_seed(4)
    dl = DataLoader(TensorDataset(*signals(512)), batch_size=32, shuffle=True)
    model = SignalNet(4)
    opt = configure(model)
    ce = nn.CrossEntropyLoss()
    for epoch in range(4):
        hits = loss_sum = 0.0
        for x, y in dl:
            model.zero_grad()
            out = model(x)
            loss = ce(out, y)
            loss.backward()
            opt.step()
            loss_sum += loss.item()
            hits += (out.argmax(1) == y).sum().item()
        print(f"epoch {epoch}  loss {loss_sum / len(dl):.3f}  acc {hits / 512:.3f}")


if __name__ == "__main__":
    main()
