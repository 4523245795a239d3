import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ShiftedBeats(Dataset):
    """Heart beats of two kinds, jittered in time as augmentation."""

    def __init__(self, n, max_shift=6, seed=0):
        self.rng = np.random.default_rng(seed)
        self.max_shift = max_shift
        self.kind = np.arange(n) % 2
        t = np.linspace(-3, 3, 48)
        narrow, wide = np.exp(-(t / 0.3) ** 2), np.exp(-(t / 0.9) ** 2)
        beats = np.where(self.kind[:, None] == 0, narrow, wide) + 0.15 * self.rng.normal(size=(n, 48))
        self.beats = ((beats - beats.mean()) / beats.std()).astype(np.float32)

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        shift = int(torch.randint(-self.max_shift, self.max_shift + 1, ()))
        return np.roll(self.beats[i], shift)[None].copy(), int(self.kind[i])


def train_one_epoch(net, loader, opt):
    net.train()
    seen = correct = 0
    for beat, kind in loader:
        opt.zero_grad()
        logits = net(beat)
        loss = nn.functional.cross_entropy(logits, kind)
        loss.backward()
        opt.step()
        seen += len(kind)
        correct += (logits.argmax(1) == kind).sum().item()
    return correct / seen


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(ShiftedBeats(192), batch_size=16, shuffle=True, num_workers=2)
    net = nn.Sequential(
        nn.Conv1d(1, 8, 7, padding=3), nn.ReLU(), nn.AvgPool1d(4),
        nn.Flatten(), nn.Linear(96, 2),
    )
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(3):
        print(f"epoch {epoch} accuracy {train_one_epoch(net, loader, opt):.3f}")
