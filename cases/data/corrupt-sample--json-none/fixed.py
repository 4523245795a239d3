import json
import random

import torch
from torch.utils.data import DataLoader, Dataset

random.seed(1)
torch.manual_seed(1)


def fake_log(n=200):
    lines = []
    for _ in range(n):
        jam = random.random() < 0.5
        rec = {
            "temp": round(random.gauss(1.0 if jam else -0.4, 0.5), 4),
            "vib": round(random.gauss(0.9 if jam else -0.3, 0.6), 4),
            "amps": round(random.gauss(0.5 if jam else -0.5, 0.7), 4),
            "jam": int(jam),
        }
        lines.append(json.dumps(rec))
    lines[146] = lines[146][:31]  # power cut while writing
    return lines


class PrinterLog(Dataset):
    def __init__(self, lines):
        self.lines = [line for line in lines if line.endswith("}")]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, idx):
        rec = json.loads(self.lines[idx])
        x = torch.tensor([rec["temp"], rec["vib"], rec["amps"]])
        return x, torch.tensor([rec["jam"]], dtype=torch.float32)


loader = DataLoader(PrinterLog(fake_log()), batch_size=10, shuffle=True)
clf = torch.nn.Linear(3, 1)
sgd = torch.optim.SGD(clf.parameters(), lr=0.5)
bce = torch.nn.BCEWithLogitsLoss()

for epoch in range(3):
    mean = 0.0
    for x, y in loader:
        sgd.zero_grad()
        loss = bce(clf(x), y)
        loss.backward()
        sgd.step()
        mean += loss.item() / len(loader)
    print("epoch", epoch, "bce", round(mean, 4))
