import csv
import random
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class TripLog(IterableDataset):
    """Taxi trips streamed from a csv file: hour, distance, rain -> was a tip given?"""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def __iter__(self):
        with open(self.path, newline="") as f:
            for hour, distance, rain, tip in csv.reader(f):
                features = torch.tensor([float(hour) / 12 - 1, float(distance) / 5 - 1, float(rain)])
                yield features, torch.tensor(float(tip))


def simulate(path, n=640):
    r = random.Random(28)
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        for _ in range(n):
            hour, distance, rain = r.uniform(0, 24), r.uniform(0, 10), r.randint(0, 1)
            score = (hour - 12) / 6 + (distance - 5) / 3 + rain - 0.5 + r.gauss(0, 0.5)
            w.writerow([f"{hour:.2f}", f"{distance:.2f}", rain, int(score > 0)])


def fit(path, epochs):
    torch.manual_seed(28)
    loader = DataLoader(TripLog(path), batch_size=16)
    net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        net.train()
        running, batches = 0.0, 0
        for x, tip in loader:
            loss = bce(net(x).squeeze(1), tip)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
            batches += 1
        print(f"epoch {epoch} | {batches} batches | loss {running / (batches or 1):.4f}")


with tempfile.TemporaryDirectory() as tmp:
    trips = tmp + "/trips.csv"
    simulate(trips)
    fit(trips, epochs=4)
