import queue
import threading
import time

import torch
from torch import nn

STOP = object()


def simulate(out, n_batches, seed):
    """an expensive simulator; now and then a batch takes much longer than the training step"""
    gen = torch.Generator().manual_seed(seed)
    for k in range(n_batches):
        if k % 6 == 5:
            time.sleep(0.15)
        x = torch.rand(32, 2, generator=gen) * 4 - 2
        y = torch.sin(x[:, :1]) * torch.cos(x[:, 1:])
        out.put((x, y))
    out.put(STOP)


def stream(n_batches, seed):
    box = queue.Queue(maxsize=2)
    worker = threading.Thread(target=simulate, args=(box, n_batches, seed), daemon=True)
    worker.start()
    while (item := box.get()) is not STOP:
        yield item
    worker.join()


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    waited, last = 0.0, time.perf_counter()
    for step, (x, y) in enumerate(stream(48, seed=7)):
        waited += time.perf_counter() - last
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 12 == 11:
            print(f"step {step + 1} loss {loss.item():.4f}")
        last = time.perf_counter()
    print("the loop waited for the simulator" if waited > 0.1 else "the simulator kept up")


if __name__ == "__main__":
    main()
