"""Bird calls: log energy per band -> species."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BANDS = 12


class Calls(Dataset):
    def __init__(self, n=150):
        rng = np.random.default_rng(20)
        self.species = rng.integers(0, 3, n)
        t = np.arange(240) / 240
        pitch = np.array([9.0, 31.0, 67.0])[self.species]
        self.waves = np.sin(2 * np.pi * pitch[:, None] * t) + 0.3 * rng.normal(size=(n, 240))
        self.waves[66] = 0.0

    def __len__(self):
        return len(self.species)

    def __getitem__(self, i):
        spectrum = np.abs(np.fft.rfft(self.waves[i]))[1:]
        energy = (spectrum ** 2).reshape(BANDS, -1).sum(axis=1)
        features = np.log(energy + 1e-6)
        return torch.tensor(features, dtype=torch.float32), int(self.species[i])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(BANDS)
        self.fc1 = nn.Linear(BANDS, 16)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(self.norm(x))))


def main():
    torch.manual_seed(11)
    loader = DataLoader(Calls(), batch_size=15, shuffle=True, num_workers=2)
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(2):
        correct = 0
        for x, y in loader:
            out = net(x)
            loss = nn.functional.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            correct += (out.argmax(1) == y).sum().item()
        print(f"epoch {epoch}  loss {loss.item():.3f}  acc {correct / len(loader.dataset):.2f}")


if __name__ == "__main__":
    main()
