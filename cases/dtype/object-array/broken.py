import csv
import io

import numpy as np
import torch
from torch import nn

CSV = """city,rooms,area,age,price
Graz,3,71.5,30,214
Linz,2,48.0,12,181
Wels,4,96.0,55,239
Graz,1,30.5,8,126
Linz,5,120.0,70,262
Graz,2,55.0,21,187
Wels,3,80.0,40,205
Linz,3,66.0,15,223
"""


def parse(cell):
    try:
        return float(cell)
    except ValueError:
        return cell


def load_table(text):
    reader = csv.reader(io.StringIO(text))
    header = next(reader)
    rows = [[parse(cell) for cell in line] for line in reader]
    return header, rows


header, rows = load_table(CSV)
numbers = np.array(rows, dtype=object)[:, 1:]  # ORIGIN
scale = np.abs(numbers).max(axis=0)
data = torch.from_numpy(numbers / scale)

X, y = data[:, :-1], data[:, -1:]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(X.shape[1], 8), nn.ELU(), nn.Linear(8, 1))
opt = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(30):
    opt.zero_grad()
    loss = (model(X) - y).abs().mean()
    loss.backward()
    opt.step()
print(f"mean absolute error {loss.item() * scale[-1]:.1f}k")
