import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def keystrokes(n, bias):
    """dwell and flight times of typed passwords; is it the owner?"""
    owner = torch.randint(0, 2, (n,))
    x = torch.randn(n, 9) + (owner[:, None] * 2 - 1) * bias
    return TensorDataset(x, owner)


def train(model, loader, optimizer, epochs, name):
    model.train()
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"{name} epoch {epoch}: {total / max(len(loader), 1):.4f}")


@torch.no_grad()
def evaluate(model, dataset):
    model.eval()
    x, y = dataset.tensors
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(5)
    general = torch.linspace(-0.6, 0.6, 9)
    personal = torch.linspace(0.8, -0.4, 9)
    net = nn.Sequential(nn.Linear(9, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))

    base = DataLoader(keystrokes(320, general), batch_size=32, shuffle=True, drop_last=True)
    train(net, base, torch.optim.Adam(net.parameters(), lr=3e-3), epochs=3, name="pretrain")

    # a new user types the password 24 times
    few = keystrokes(24, personal)
    adapt = DataLoader(few, batch_size=32, shuffle=True, drop_last=True)  # ORIGIN
    train(net, adapt, torch.optim.Adam(net.parameters(), lr=1e-2), epochs=8, name="adapt")
    print(f"accuracy for the new user {evaluate(net, keystrokes(200, personal)):.3f}")


main()
