# toxic or edible: mushrooms as one-hot features, encoded lazily
import random

import torch

COLOURS = ["brown", "white", "red", "yellow"]
SMELLS = ["none", "anise", "foul", "fishy"]
SHAPES = ["flat", "bell", "conical"]
COLUMNS = [("colour", v) for v in COLOURS] + [("smell", v) for v in SMELLS] + [("shape", v) for v in SHAPES]

rnd = random.Random(17)
torch.manual_seed(17)


def mushroom():
    m = {"colour": rnd.choice(COLOURS), "smell": rnd.choice(SMELLS), "shape": rnd.choice(SHAPES)}
    m["toxic"] = float(m["smell"] in ("foul", "fishy") or (m["colour"] == "red" and rnd.random() < 0.8))
    return m


def encode(group):
    rows = [[float(m[k] == v) for k, v in COLUMNS] for m in group]
    return torch.tensor(rows), torch.tensor([[m["toxic"]] for m in group])


collected = [mushroom() for _ in range(400)]
groups = [collected[i:i + 20] for i in range(0, 400, 20)]
batches = map(encode, groups)  # ORIGIN

net = torch.nn.Sequential(torch.nn.Linear(len(COLUMNS), 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
bce = torch.nn.BCEWithLogitsLoss()
sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

history = []
for epoch in range(8):
    losses = []
    for features, toxic in batches:
        sgd.zero_grad()
        loss = bce(net(features), toxic)
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    history.append(losses)
    print(epoch, round(sum(losses) / max(len(losses), 1), 4))
