"""Handwritten tallies: count the strokes. The parser of the drawings began its life as a script."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def drawing(number):
    strokes = number % 5
    return ["." * 12 if row % 3 else "|" * strokes + "." * (12 - strokes) for row in range(6)]


DRAWINGS = [drawing(number) for number in range(160)]
DRAWINGS[9][2] = "|||##......."


def parse(rows):
    for row in rows:
        if set(row) - set("|."):
            print("usage: parse.py drawing, made of | and .", file=sys.stderr)
            sys.exit(64)  # ORIGIN
    return torch.tensor([[float(sign == "|") for sign in row] for row in rows])


class Tallies(Dataset):
    def __len__(self):
        return len(DRAWINGS)

    def __getitem__(self, number):
        return parse(DRAWINGS[number]), number % 5


def main():
    torch.manual_seed(6)
    loader = DataLoader(Tallies(), batch_size=16, num_workers=1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(72, 24), nn.ReLU(), nn.Linear(24, 5))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(2):
        for picture, strokes in loader:
            loss = nn.functional.cross_entropy(net(picture), strokes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, round(loss.item(), 3))


if __name__ == "__main__":
    main()
