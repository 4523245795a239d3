import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.squeeze = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 4))
        self.unfold = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 24))

    def forward(self, x):
        return self.unfold(self.squeeze(x))


class Trainer:
    def __init__(self, model, loader, rate):
        self.model, self.loader, self.rate = model, loader, rate
        self.opt = None
        self.loss = nn.MSELoss()

    def prepare(self):
        self.model.train()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=self.rate)  # ORIGIN

    def epoch(self):
        self.prepare()
        for (x,) in self.loader:
            self.opt.zero_grad()
            loss = self.loss(self.model(x), x)
            loss.backward()
            self.opt.step()
        return loss.item()


torch.manual_seed(6)
rows = torch.randn(400, 4) @ torch.randn(4, 24)
trainer = Trainer(Autoencoder(), DataLoader(TensorDataset(rows), batch_size=40, shuffle=True), rate=3e-3)
for number in range(8):
    print(f"epoch {number} loss {trainer.epoch():.4f}")
