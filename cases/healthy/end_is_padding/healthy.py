"""Three ways to do it right with a symbol that is padding and something else, too: an end that is kept by the lengths; tags where
what is nothing is left out on purpose, and pads; and texts that have no end of their own."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

END = 0


def walk(start, length):
    return [1 + (start + step * step) % 9 for step in range(length)]


def with_end(rows):
    tokens = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=END)
    labels = tokens.clone()
    labels[torch.arange(tokens.shape[1]) >= torch.tensor([len(row) for row in rows])[:, None]] = -100
    return tokens, labels


def without_end(rows):
    tokens = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=END)
    labels = tokens.clone()
    labels[labels == END] = -100
    return tokens, labels


def tagged(rows):
    words, tags = (pad_sequence([torch.tensor(row[k]) for row in rows], batch_first=True) for k in range(2))
    return words, tags


def train(net, loader, following, ignored):
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for inputs, labels in loader:
        scores = net(inputs[:, :-1] if following else inputs)
        aims = labels[:, 1:] if following else labels
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), aims.flatten(), ignore_index=ignored)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(round(loss.item(), 4))


torch.manual_seed(14)
walks = [walk(k, 3 + k % 6) for k in range(160)]
tags = [(row + [9, 9], [each % 3 for each in row] + [0, 0]) for row in walks]
for rows, collate, following, ignored in (
    ([row + [END] for row in walks], with_end, True, -100),
    (walks, without_end, True, -100),
    (tags, tagged, False, 0),
):
    net = nn.Sequential(nn.Embedding(10, 16), nn.Linear(16, 10))
    train(net, DataLoader(rows, batch_size=16, shuffle=True, collate_fn=collate), following, ignored)
