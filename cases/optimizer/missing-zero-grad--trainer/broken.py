from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    window: int = 20
    hidden: int = 24
    lr: float = 5e-3
    epochs: int = 5
    batch_size: int = 32


class Forecaster(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        _, h = self.gru(x)
        return self.out(h[-1])


class Trainer:
    def __init__(self, model, loader, cfg):
        self.model = model
        self.loader = loader
        self.cfg = cfg
        self.opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
        self.loss_fn = nn.MSELoss()

    def training_step(self, batch):
        x, y = batch
        pred = self.model(x)
        return self.loss_fn(pred, y)

    def optimize(self, loss):
        loss.backward()  # ORIGIN
        self.opt.step()

    def fit(self):
        for epoch in range(self.cfg.epochs):
            self.model.train()
            total = 0.0
            for batch in self.loader:
                loss = self.training_step(batch)
                self.optimize(loss)
                total += loss.item()
            print(f"epoch {epoch}: mse {total / len(self.loader):.5f}")


def make_series(window, length=420):
    s = torch.arange(length) * 0.21
    series = torch.sin(s) + 0.3 * torch.sin(2.7 * s) + 0.05 * torch.randn(length)
    windows = series.unfold(0, window + 1, 1)
    return TensorDataset(windows[:, :-1, None].contiguous(), windows[:, -1:].contiguous())


if __name__ == "__main__":
    torch.manual_seed(7)
    cfg = Config()
    loader = DataLoader(make_series(cfg.window), batch_size=cfg.batch_size, shuffle=True)
    Trainer(Forecaster(cfg.hidden), loader, cfg).fit()
