"""Greenhouse: tomorrow's humidity from a week of readings. The station reports null when a sensor is off."""
import io
import json

import numpy as np
import torch
from torch import nn

FIELDS = ["humidity", "soil", "light"]
DAYS, WEEK = 600, 7
rng = np.random.default_rng(12)


def station(days):
    out = io.StringIO()
    for day in range(days):
        season = np.sin(day / 58)
        reading = {"humidity": 0.6 + 0.2 * season, "soil": 0.4 - 0.1 * season, "light": 0.5 + 0.3 * season}
        reading = {name: round(value + rng.normal(0, 0.03), 3) for name, value in reading.items()}
        if rng.random() < 0.05:
            reading["humidity"] = None
        if 480 <= day < 484:
            reading["soil"] = None
        out.write(json.dumps(reading) + "\n")
    return out.getvalue()


def read(text):
    rows = [json.loads(line) for line in text.splitlines()]
    return np.array([[row[name] for name in FIELDS] for row in rows], dtype=np.float32)


def carried_forward(values):
    for day in range(1, len(values)):
        if np.isnan(values[day]):
            values[day] = values[day - 1]
    return values


readings = read(station(DAYS))
for column in range(len(FIELDS)):
    readings[:, column] = carried_forward(readings[:, column])
first = readings[:200]
readings = (readings - first.mean(0)) / first.std(0)


def draw(until, size=20):
    days = rng.integers(0, until - WEEK, size)
    weeks = np.stack([readings[day : day + WEEK] for day in days])
    return torch.from_numpy(weeks), torch.from_numpy(readings[days + WEEK, 0])


torch.manual_seed(12)
net = nn.Sequential(nn.Flatten(), nn.Linear(WEEK * 3, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for until in (300, 450, 600):
    for step in range(40):
        weeks, humidity = draw(until)
        loss = nn.functional.mse_loss(net(weeks).squeeze(1), humidity)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"until day {until}: {loss.item():.3f}")
