import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F


def save_survey(folder):
    r = np.random.default_rng(33)
    n = 520
    answers = pd.DataFrame(r.normal(size=(n, 5)), columns=[f"q{i}" for i in range(5)])
    group = (answers.q0 + 0.8 * answers.q1 - answers.q3 > 0).astype(int)
    answers = answers.mask(r.random(answers.shape) < 0.01)
    answers.to_csv(folder / "answers.csv", index=False)
    group.to_frame("group").to_csv(folder / "group.csv", index=False)


def load(folder):
    answers = pd.read_csv(folder / "answers.csv")
    group = pd.read_csv(folder / "group.csv")["group"]
    x = answers.dropna().to_numpy()  # ORIGIN
    y = group.to_numpy()[: len(x)]
    return torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y)


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        save_survey(tmp)
        x, y = load(tmp)
    w1 = torch.nn.Linear(5, 16)
    w2 = torch.nn.Linear(16, 2)
    opt = torch.optim.SGD([*w1.parameters(), *w2.parameters()], lr=0.2)
    for epoch in range(15):
        order = torch.randperm(len(x))
        hits = 0
        for s in range(0, len(x), 40):
            b = order[s : s + 40]
            logits = w2(torch.relu(w1(x[b])))
            loss = F.cross_entropy(logits, y[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
            hits += (logits.argmax(1) == y[b]).sum().item()
        if epoch % 3 == 2:
            print(epoch, "acc", hits / len(x))


main()
