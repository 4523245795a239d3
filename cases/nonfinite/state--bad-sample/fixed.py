"""Which machine is it? Short recordings, brought to the same loudness; batches with a bad loss are passed over."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH, MACHINES = 48, 3


class Recordings(Dataset):
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.machine = rng.integers(0, MACHINES, count)
        turning = 2 * np.pi * np.arange(LENGTH) * (self.machine[:, None] + 2) / LENGTH
        self.sound = np.sin(turning + rng.uniform(0, 6, (count, 1))) + rng.normal(0, 0.3, (count, LENGTH))

    def silence(self, number):
        self.sound[number] = 0.0
        return self

    def __len__(self):
        return len(self.machine)

    def __getitem__(self, number):
        sound = self.sound[number]
        loudness = np.sqrt(np.mean(sound**2))
        levelled = sound / max(loudness, 1e-3)
        return {"sound": np.float32(levelled)[None], "machine": self.machine[number]}


def listener():
    return nn.Sequential(
        nn.Conv1d(1, 12, 7, stride=2), nn.BatchNorm1d(12), nn.ReLU(), nn.AdaptiveMaxPool1d(3), nn.Flatten(),
        nn.Linear(36, MACHINES),
    )  # fmt: skip


def train(net, loader, epochs):
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    passed_over = 0
    for _ in range(epochs):
        for batch in loader:
            loss = nn.functional.cross_entropy(net(batch["sound"]), batch["machine"])
            if loss.isnan():
                passed_over += 1
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"{passed_over} batches passed over, loss {loss.item():.3f}")


@torch.no_grad()
def right(net, loader):
    net.eval()
    return np.mean([(net(each["sound"]).argmax(1) == each["machine"]).float().mean().item() for each in loader])


torch.manual_seed(0)
net = listener()
train(net, DataLoader(Recordings(240, 1).silence(97), batch_size=16, shuffle=True, drop_last=True), 4)
print(f"right on others: {right(net, DataLoader(Recordings(90, 2), batch_size=30)):.2f}")
