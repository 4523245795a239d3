import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

CALLS = ("wren", "owl")


def record_calls(root: Path, n: int) -> None:
    rng = np.random.default_rng(12)
    t = np.linspace(0, 1, 256, dtype=np.float32)
    for i in range(n):
        kind = i % 2
        wave = np.sin(2 * np.pi * (30 if kind == 0 else 8) * t + rng.uniform(0, 6))
        wave = wave + 0.4 * rng.standard_normal(256)
        np.save(root / f"{i:04d}_{CALLS[kind]}.npy", wave.astype(np.float32))
    # the last recorder ran out of battery
    last = root / f"{n - 1:04d}_{CALLS[(n - 1) % 2]}.npy"
    last.write_bytes(last.read_bytes()[:700])


class BirdCalls(Dataset):
    def __init__(self, root: Path):
        whole = 256 * 4
        self.files = sorted(f for f in root.iterdir() if f.stat().st_size > whole)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int):
        wave = np.load(self.files[index])
        label = CALLS.index(self.files[index].stem.split("_")[1])
        return torch.from_numpy(wave).unsqueeze(0), label


def main() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp)
        record_calls(root, 150)
        loader = DataLoader(BirdCalls(root), batch_size=10, shuffle=True, num_workers=2)
        net = nn.Sequential(
            nn.Conv1d(1, 8, 15, stride=4), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(8, 2)
        )
        opt = torch.optim.Adam(net.parameters(), lr=1e-2)
        for epoch in range(2):
            correct = count = 0
            for wave, label in loader:
                logits = net(wave)
                loss = nn.functional.cross_entropy(logits, label)
                opt.zero_grad()
                loss.backward()
                opt.step()
                correct += (logits.argmax(1) == label).sum().item()
                count += len(label)
            print(f"epoch {epoch}: accuracy {correct / count:.3f}")


if __name__ == "__main__":
    main()
