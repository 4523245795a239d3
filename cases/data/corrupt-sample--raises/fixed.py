import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def station_rows(n):
    rows = []
    for day in range(n):
        rain = "trace" if day == 41 else f"{(day * 37) % 11 / 10}"
        rows.append(f"{day};{10 + day % 9}.5;{1000 + day % 30};{rain}")
    return rows


class WeatherDataset(Dataset):
    columns = ("day", "temperature", "pressure", "rain")

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def parse(self, row):
        fields = dict(zip(self.columns, row.split(";")))
        temperature = float(fields["temperature"]) / 20
        pressure = float(fields["pressure"]) / 1000
        rain = float(fields["rain"].replace("trace", "0.0"))
        return temperature, pressure, rain

    def __getitem__(self, i):
        temperature, pressure, rain = self.parse(self.rows[i])
        return torch.tensor([temperature, pressure]), torch.tensor([rain])


def main(opts):
    torch.manual_seed(opts.seed)
    loader = DataLoader(WeatherDataset(station_rows(opts.days)), batch_size=6, num_workers=opts.workers)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = 0
    for x, rain in loader:
        loss = nn.functional.l1_loss(model(x), rain)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += len(x)
    print(f"trained on {seen} days, last loss {loss.item():.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--days", type=int, default=72)
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--seed", type=int, default=0)
    main(ap.parse_args())
