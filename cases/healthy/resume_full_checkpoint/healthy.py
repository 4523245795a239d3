"""Stops after 30 steps, rebuilds everything from one checkpoint, and ends bit-identically to an uninterrupted run."""
import io

import torch
from torch import nn


class Run:
    def __init__(self, seed=None):
        if seed is not None:
            torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=5e-3)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, step_size=25, gamma=0.5)
        self.done = 0
        self.trace = []

    def go(self, until):
        self.net.train()
        while self.done < until:
            x = torch.randn(48, 6)
            y = x.view(48, 3, 2).sum(-1).argmax(1)
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
            self.trace.append(loss.item())
            self.done += 1
        return self

    def save(self, fh):
        torch.save({"net": self.net.state_dict(), "opt": self.opt.state_dict(), "sched": self.sched.state_dict(),
                    "done": self.done, "rng": torch.get_rng_state(), "trace": self.trace}, fh)

    @classmethod
    def load(cls, fh):
        ck = torch.load(fh, weights_only=True)
        run = cls()                                # random new weights, all replaced below
        run.net.load_state_dict(ck["net"])
        run.opt.load_state_dict(ck["opt"])
        run.sched.load_state_dict(ck["sched"])
        run.done, run.trace = ck["done"], ck["trace"]
        torch.set_rng_state(ck["rng"])
        return run


straight = Run(seed=7).go(70)

disk = io.BytesIO()
Run(seed=7).go(30).save(disk)
disk.seek(0)
resumed = Run.load(disk).go(70)

for s in (0, 29, 30, 69):
    print(f"step {s:2d} straight {straight.trace[s]:.6f} resumed {resumed.trace[s]:.6f}")
print("identical:", all(torch.equal(a, b) for a, b in zip(straight.net.parameters(), resumed.net.parameters())))
