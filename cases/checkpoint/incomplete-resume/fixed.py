import io

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Session:
    def __init__(self, dataset):
        self.loader = DataLoader(dataset, batch_size=32, shuffle=True)
        self.model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
        self.opt = torch.optim.Adam(self.model.parameters(), lr=5e-3)
        self.epoch = 0

    def save(self):
        f = io.BytesIO()
        torch.save({"model": self.model.state_dict(), "optimizer": self.opt.state_dict(), "epoch": self.epoch}, f)
        return f.getvalue()

    def resume(self, raw):
        ckpt = torch.load(io.BytesIO(raw), weights_only=True)
        self.model.load_state_dict(ckpt["model"])
        self.opt.load_state_dict(ckpt["optimizer"])
        self.epoch = ckpt["epoch"]

    def train(self, until):
        while self.epoch < until:
            total = 0.0
            for x, y in self.loader:
                self.opt.zero_grad()
                loss = nn.functional.mse_loss(self.model(x), y)
                loss.backward()
                self.opt.step()
                total += loss.item()
            self.epoch += 1
            print(f"epoch {self.epoch}: {total / len(self.loader):.5f}")


torch.manual_seed(0)
x = torch.randn(512, 8)
data = TensorDataset(x, torch.sin(x[:, :1] + x[:, 1:2]) + 0.3 * x[:, 2:3])

first = Session(data)
first.train(until=4)
raw = first.save()
del first

second = Session(data)
second.resume(raw)
second.train(until=8)
