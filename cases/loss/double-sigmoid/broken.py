import torch
import torch.nn as nn


class MultiLabelNet(nn.Module):
    """Genres of a film from a bag of keyword features."""

    def __init__(self, n_features, n_genres):
        super().__init__()
        self.hidden = nn.Linear(n_features, 48)
        self.act = nn.LeakyReLU(0.1)
        self.genres = nn.Linear(48, n_genres)

    def forward(self, keywords):
        h = self.act(self.hidden(keywords))
        return torch.sigmoid(self.genres(h))  # ORIGIN


class Trainer:
    def __init__(self, model, lr=1e-2):
        self.model = model
        self.criterion = nn.BCEWithLogitsLoss()
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)

    def step(self, x, y):
        self.opt.zero_grad()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.opt.step()
        return loss.item()

    def fit(self, x, y, epochs=4, bs=40):
        for e in range(epochs):
            order = torch.randperm(len(x))
            hist = [self.step(x[i], y[i]) for i in order.split(bs)]
            print(f"epoch {e} bce {sum(hist) / len(hist):.4f}")


torch.manual_seed(13)
x = torch.randn(480, 20)
true_w = torch.randn(20, 6)
y = ((x @ true_w) / 20 ** 0.5 - 0.8 > 0).float()     # each genre is rather rare
Trainer(MultiLabelNet(20, 6)).fit(x, y)
