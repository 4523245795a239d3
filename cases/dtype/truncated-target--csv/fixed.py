import csv
import io
import random

import torch
from torch.utils.data import DataLoader, Dataset


def export():
    """stands in for the file that the lab sends"""
    r = random.Random(6)
    out = io.StringIO()
    w = csv.writer(out)
    w.writerow(["logp", "rings", "charge", "weight", "solubility"])
    for _ in range(400):
        logp, rings, charge, weight = r.gauss(0, 1), r.gauss(0, 1), r.gauss(0, 1), r.gauss(0, 1)
        sol = 0.5 * logp - 0.3 * rings + 0.4 * charge * weight + r.gauss(0, 0.05)
        w.writerow([f"{v:.4f}" for v in (logp, rings, charge, weight, sol)])
    out.seek(0)
    return out


class Molecules(Dataset):
    def __init__(self, handle):
        self.rows = list(csv.DictReader(handle))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, idx):
        row = self.rows[idx]
        x = torch.tensor([float(row[c]) for c in ("logp", "rings", "charge", "weight")])
        y = torch.tensor(float(row["solubility"]))
        return x, y


def collate(samples):
    xs, ys = zip(*samples)
    return torch.stack(xs), torch.stack(ys).unsqueeze(1).float()


def train(loader, epochs=5):
    net = torch.nn.Sequential(
        torch.nn.Linear(4, 40),
        torch.nn.Tanh(),
        torch.nn.Linear(40, 1),
    )
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for e in range(epochs):
        losses = []
        for x, y in loader:
            opt.zero_grad()
            loss = torch.nn.functional.huber_loss(net(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print("epoch", e, "huber", sum(losses) / len(losses))


if __name__ == "__main__":
    torch.manual_seed(0)
    train(DataLoader(Molecules(export()), batch_size=40, shuffle=True, collate_fn=collate))
