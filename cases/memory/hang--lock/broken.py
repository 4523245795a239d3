import threading
import time

import torch
import torch.nn.functional as F
from torch import nn


class RunStats:
    """running mean of the loss; a status thread reads it now and then"""

    def __init__(self, every):
        self.every = every
        self.values = []
        self.summary = "no steps yet"
        self._lock = threading.Lock()

    def add(self, value):
        with self._lock:
            self.values.append(value)
            if len(self.values) >= self.every:
                self.flush()

    def flush(self):
        with self._lock:  # ORIGIN
            self.summary = f"mean loss of the last {len(self.values)}: {sum(self.values) / len(self.values):.4f}"
            self.values.clear()

    def read(self):
        with self._lock:
            return self.summary


def status_line(stats, stop):
    last = None
    while not stop.is_set():
        now = stats.read()
        if now != last:
            print(now, flush=True)
            last = now
        time.sleep(0.01)


def two_moons(n):
    t = 3.14159 * torch.rand(n)
    y = torch.randint(0, 2, (n,))
    s = 1.0 - 2.0 * y
    x = torch.stack([torch.cos(t) * s + y - 0.5, torch.sin(t) * s + 0.5 * y - 0.25], 1)
    return x + 0.1 * torch.randn(n, 2), y


def main():
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    stats, stop = RunStats(every=8), threading.Event()
    reporter = threading.Thread(target=status_line, args=(stats, stop), daemon=True)
    reporter.start()
    for step in range(48):
        x, y = two_moons(64)
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        stats.add(loss.item())
    stop.set()
    reporter.join()
    print("done;", stats.read())


if __name__ == "__main__":
    main()
