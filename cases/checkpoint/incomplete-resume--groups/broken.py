import argparse
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Rater(nn.Module):
    def __init__(self, users=40, items=30, dim=8):
        super().__init__()
        self.user, self.item = nn.Embedding(users, dim), nn.Embedding(items, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, pairs):
        both = torch.cat([self.user(pairs[:, 0]), self.item(pairs[:, 1])], dim=1)
        return self.mlp(both).squeeze(1)


class Trainer:
    def __init__(self, args, data):
        self.args, self.data = args, data
        self.model = Rater()
        self.epoch = 0

    def start(self):
        tables = [*self.model.user.parameters(), *self.model.item.parameters()]
        groups = [{"params": tables, "lr": 10 * self.args.lr}, {"params": self.model.mlp.parameters()}]
        self.optimizer = torch.optim.Adam(groups, lr=self.args.lr)
        return self

    def resume(self, state):
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.args.lr)  # ORIGIN
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch = state["epoch"]
        return self

    def state(self):
        parts = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": self.epoch}
        return copy.deepcopy(parts)

    def train(self, until):
        while self.epoch < until:
            for pairs, rating in DataLoader(self.data, batch_size=50, shuffle=True):
                loss = nn.functional.mse_loss(self.model(pairs), rating)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self.epoch += 1
            print(self.epoch, f"{loss.item():.4f}")


parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
args = parser.parse_args([])
torch.manual_seed(8)
pairs = torch.stack([torch.randint(0, 40, (500,)), torch.randint(0, 30, (500,))], dim=1)
taste = torch.randn(40, 30)
data = TensorDataset(pairs, taste[pairs[:, 0], pairs[:, 1]])

night = Trainer(args, data).start()
night.train(3)
day = Trainer(args, data).resume(night.state())
day.train(5)
