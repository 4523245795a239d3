import json

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def fake_log_lines(n):
    lines = []
    for k in range(n):
        record = {"temp": 20 + (k * 7) % 13, "load": (k * 3) % 10 / 10, "failed": int(k % 4 == 0)}
        lines.append(json.dumps(record))
    lines[37] = lines[37][:18]
    return lines


class MachineLog(Dataset):
    def __init__(self, lines):
        self.lines = lines

    def __getitem__(self, index):
        try:
            record = json.loads(self.lines[index])
        except json.JSONDecodeError:
            return None  # ORIGIN
        x = torch.tensor([record["temp"] / 30, record["load"]])
        y = torch.tensor(float(record["failed"]))
        return {"x": x, "y": y}

    def __len__(self):
        return len(self.lines)


def train():
    torch.manual_seed(1)
    loader = DataLoader(MachineLog(fake_log_lines(64)), batch_size=8, shuffle=True)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))
    bce = nn.BCEWithLogitsLoss()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(2):
        for batch in loader:
            loss = bce(net(batch["x"]), batch["y"])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, "last loss", round(loss.item(), 3))


train()
