"""Parking garage: how full is it in half an hour? Events come from a log, one JSON object in a line."""
import json
import os
import random
import tempfile
from itertools import islice

import torch
from torch import nn


def write_events(path, count=900):
    rnd = random.Random(11)
    with open(path, "w") as out:
        for minute in range(count):
            share = 0.5 + 0.3 * rnd.uniform(-1, 1)
            event = {"minute": minute % 60, "share": share, "rain": rnd.random() < 0.3, "next": 0.8 * share + 0.1}
            if minute == 611:
                event = {"minute": minute % 60, "notice": "barrier restarted"}
            out.write(json.dumps(event) + "\n")


class Events:
    def __init__(self, path):
        self.path = path

    def features(self, event):
        return [event["minute"] / 60, event["share"], float(event["rain"]), event["next"]]

    def __iter__(self):
        with open(self.path) as log:
            for line in log:
                event = json.loads(line)
                if "notice" not in event:
                    yield self.features(event)


def in_groups(events, size):
    source = iter(events)
    while group := list(islice(source, size)):
        yield torch.tensor(group)


torch.manual_seed(11)
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "events.jsonl")
    write_events(log)
    net = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(3):
        for number, group in enumerate(in_groups(Events(log), 30)):
            loss = nn.functional.mse_loss(net(group[:, :3]), group[:, 3:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")
