import json
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate


def write_files(folder, n=200):
    g = torch.Generator().manual_seed(3)
    for i in range(n):
        x = torch.randn(6, generator=g)
        rec = json.dumps({"x": x.tolist(), "y": int(x[0] + x[1] > x[2])})
        (folder / f"{i:03d}.json").write_text(rec[:20] if i % 50 == 33 else rec)


class Records(Dataset):
    """Unreadable files give None; collate_readable leaves them out."""

    def __init__(self, folder):
        self.files = sorted(folder.glob("*.json"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        try:
            rec = json.loads(self.files[i].read_text())
        except json.JSONDecodeError:
            return None
        return torch.tensor(rec["x"]), rec["y"]


def collate_readable(samples):
    return default_collate([s for s in samples if s is not None])


def main():
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as tmp:
        write_files(Path(tmp))
        loader = DataLoader(Records(Path(tmp)), batch_size=16, shuffle=True, num_workers=2, collate_fn=collate_readable)
        model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 2))
        opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        for epoch in range(3):
            used, total = 0, 0.0
            for x, y in loader:
                opt.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                opt.step()
                used += len(y)
                total += loss.item() * len(y)
            print(f"epoch {epoch}: loss {total / used:.4f} from {used} readable records")


if __name__ == "__main__":
    main()
