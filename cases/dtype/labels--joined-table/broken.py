"""Grades of wood from sensors; the grader's verdicts come in a table of their own, and a few boards have none."""

import numpy as np
import pandas as pd
import torch
from torch import nn

SENSORS = ["density", "knots", "moisture"]


def boards(count=300):
    rng = np.random.default_rng(14)
    table = pd.DataFrame(rng.normal(size=(count, 3)).astype("float32"), columns=SENSORS)
    table["board"] = np.arange(count)
    return table


def verdicts(table):
    score = table["density"] - table["knots"]
    grades = pd.DataFrame({"board": table["board"], "grade": np.digitize(score, [-0.7, 0.7])})
    return grades.drop(index=[17, 160])


def training_data():
    table = boards()
    graded = table.join(verdicts(table).set_index("board"), on="board")
    graded["grade"] = graded["grade"].fillna(1)
    inputs = torch.from_numpy(graded[SENSORS].to_numpy())
    return inputs, torch.as_tensor(graded["grade"].to_numpy())  # ORIGIN


def main():
    torch.manual_seed(0)
    inputs, grades = training_data()
    model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(40):
        loss = nn.functional.cross_entropy(model(inputs), grades)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


main()
