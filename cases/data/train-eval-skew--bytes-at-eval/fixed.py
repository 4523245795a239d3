import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def draw(n, seed):
    """bars: vertical, horizontal, both, none - on a 14x14 noisy background"""
    rs = np.random.RandomState(seed)
    imgs = rs.randint(0, 60, size=(n, 14, 14, 1)).astype(np.uint8)
    kinds = rs.randint(0, 4, size=n)
    for img, kind in zip(imgs, kinds):
        if kind in (0, 2):
            img[:, rs.randint(2, 12)] += 150
        if kind in (1, 2):
            img[rs.randint(2, 12)] += 40
    return imgs, kinds


class Trainer:
    def __init__(self, model, lr=4e-3):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.history = []

    def batches(self, images, labels, size=32):
        for idx in np.array_split(np.random.permutation(len(images)), len(images) // size):
            x = torch.from_numpy(images[idx]).permute(0, 3, 1, 2).float().div(255.0)
            yield x, torch.from_numpy(labels[idx])

    def fit(self, train, valid, epochs):
        for epoch in range(epochs):
            self.model.train()
            losses = []
            for x, y in self.batches(*train):
                self.opt.zero_grad()
                loss = F.cross_entropy(self.model(x), y)
                loss.backward()
                self.opt.step()
                losses.append(loss.item())
            self.history.append((np.mean(losses), self.score(*valid)))
            print("epoch {}: loss {:.4f}, valid nll {:.4f}".format(epoch, *self.history[-1]))

    @torch.no_grad()
    def score(self, images, labels):
        self.model.eval()
        total = 0.0
        for lo in range(0, len(images), 50):
            x = torch.from_numpy(images[lo : lo + 50]).permute(0, 3, 1, 2).float().div(255.0)
            y = torch.from_numpy(labels[lo : lo + 50])
            total += F.cross_entropy(self.model(x), y, reduction="sum").item()
        return total / len(images)


np.random.seed(4)
torch.manual_seed(4)
model = nn.Sequential(
    nn.Conv2d(1, 12, 5), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(12 * 5 * 5, 4),
)
Trainer(model).fit(draw(480, 0), draw(150, 1), epochs=5)
