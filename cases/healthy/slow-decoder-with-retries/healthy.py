"""A flaky share: some reads are slow, some fail once and are tried again."""
import threading
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

handle = threading.Lock()


class FlakyShare:
    def __init__(self, n):
        g = torch.Generator().manual_seed(21)
        self.x = torch.randn(n, 9, generator=g)
        self.y = (self.x[:, :3].sum(1) > self.x[:, 3:6].sum(1)).long()
        self.failed = set()

    def read(self, i):
        if i == 64:
            time.sleep(0.4)  # this one lives on tape
        if i % 45 == 11 and i not in self.failed:
            self.failed.add(i)
            raise TimeoutError(f"share did not answer for {i}")
        return self.x[i], self.y[i]


class Remote(Dataset):
    def __init__(self, share, attempts=3):
        self.share, self.attempts = share, attempts

    def __len__(self):
        return len(self.share.y)

    def __getitem__(self, i):
        for attempt in range(self.attempts):
            try:
                with handle:
                    return self.share.read(i)
            except TimeoutError:
                time.sleep(0.01 * 2**attempt)
        raise RuntimeError(f"gave up on sample {i}")


def main():
    torch.manual_seed(21)
    loader = DataLoader(Remote(FlakyShare(240)), batch_size=20, shuffle=True, num_workers=2, timeout=30)
    net = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 2))
    opt = torch.optim.Adam(net.parameters(), lr=8e-3)
    for epoch in range(3):
        start, total = time.perf_counter(), 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.4f}")
        assert time.perf_counter() - start < 60


if __name__ == "__main__":
    main()
