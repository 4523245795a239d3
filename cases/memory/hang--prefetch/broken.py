import queue
import random
import threading

import torch
from torch import nn


def read_rows(n=320):
    """rows as the logger writes them: six readings and the target, as text"""
    gen = torch.Generator().manual_seed(1)
    x = torch.randn(n, 6, generator=gen)
    y = x @ torch.tensor([0.6, -1.0, 0.3, 0.0, 0.8, -0.4])
    rows = [[f"{v:.4f}" for v in row] for row in torch.cat([x, y[:, None]], 1).tolist()]
    rows[117][3] = "n/a"
    return rows


class Prefetcher:
    """parses the batches in the background so that the loop need not wait for it"""

    def __init__(self, rows, batch_size, depth=4):
        self.rows, self.batch_size = rows, batch_size
        self.ready = queue.Queue(maxsize=depth)
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        for start in range(0, len(self.rows), self.batch_size):
            chunk = self.rows[start:start + self.batch_size]
            table = torch.tensor([[float(v) for v in row] for row in chunk])
            self.ready.put((table[:, :6], table[:, 6:]))
        self.ready.put(None)

    def __iter__(self):
        while True:
            batch = self.ready.get()  # ORIGIN
            if batch is None:
                return
            yield batch


torch.manual_seed(0)
random.seed(10)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
rows = read_rows()
for epoch in range(3):
    random.shuffle(rows)
    for step, (x, y) in enumerate(Prefetcher(rows, batch_size=20)):
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0:
            print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
