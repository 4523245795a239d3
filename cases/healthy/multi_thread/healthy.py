"""A background thread prepares batches; the main thread trains from a bounded queue."""
import queue
import threading

import torch
from torch import nn

END = object()


class Prefetcher(threading.Thread):
    def __init__(self, make_batch, count, depth=4):
        super().__init__(name="prefetch", daemon=True)
        self.make_batch, self.count = make_batch, count
        self.queue = queue.Queue(maxsize=depth)

    def run(self):
        try:
            for i in range(self.count):
                self.queue.put(self.make_batch(i))
            self.queue.put(END)
        except Exception as e:  # handed to the consumer, which raises it
            self.queue.put(e)

    def __iter__(self):
        while (item := self.queue.get()) is not END:
            if isinstance(item, Exception):
                raise item
            yield item


def make_batch(i, size=48):
    g = torch.Generator().manual_seed(1000 + i)        # own generator: the order of threads does not matter
    x = torch.rand(size, 10, generator=g)
    spectrum = torch.fft.rfft(x, dim=1).abs()
    return torch.cat([x, spectrum], dim=1), x.std(dim=1, keepdim=True)


def main():
    torch.manual_seed(200)
    model = nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    feed = Prefetcher(make_batch, count=90)
    feed.start()
    history = []
    for features, spread in feed:
        loss = nn.functional.mse_loss(model(features), spread)
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append(loss.item())
    feed.join(timeout=5)
    print(f"{len(history)} batches, mse {history[0]:.4f} -> {sum(history[-10:]) / 10:.5f}, thread alive: {feed.is_alive()}")


if __name__ == "__main__":
    main()
