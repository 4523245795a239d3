import json
import pathlib
import tempfile
from typing import NamedTuple

import torch
from torch import nn, optim
from torch.utils import data


class Click(NamedTuple):
    user: torch.Tensor
    item: torch.Tensor
    liked: torch.Tensor


def make_shards(folder, shards=6, per_shard=80):
    g = torch.Generator().manual_seed(9)
    taste, style = torch.randn(30, 4, generator=g), torch.randn(40, 4, generator=g)
    for s in range(shards):
        rows = []
        for _ in range(per_shard):
            u = int(torch.randint(30, (1,), generator=g))
            i = int(torch.randint(40, (1,), generator=g))
            rows.append({"user": u, "item": i, "liked": float(taste[u] @ style[i] > 0)})
        (folder / f"part-{s:05d}.json").write_text(json.dumps(rows))


class ClickStream(data.IterableDataset):
    def __init__(self, folder, buffer=64):
        self.files = sorted(folder.glob("part-*.json"))
        self.buffer = buffer

    def records(self):
        for path in self.files:  # ORIGIN
            for row in json.loads(path.read_text()):
                yield Click(torch.tensor(row["user"]), torch.tensor(row["item"]), torch.tensor(row["liked"]))

    def __iter__(self):
        held = []
        for click in self.records():
            held.append(click)
            if len(held) >= self.buffer:
                yield held.pop(int(torch.randint(len(held), (1,))))
        while held:
            yield held.pop(int(torch.randint(len(held), (1,))))


class Factors(nn.Module):
    def __init__(self, users, items, k=8):
        super().__init__()
        self.users = nn.Embedding(users, k)
        self.items = nn.Embedding(items, k)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, click):
        return (self.users(click.user) * self.items(click.item)).sum(-1) + self.bias


if __name__ == "__main__":
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as tmp:
        folder = pathlib.Path(tmp)
        make_shards(folder)
        stream = data.DataLoader(ClickStream(folder), batch_size=20, num_workers=2, persistent_workers=True)
        model = Factors(30, 40)
        adam = optim.Adam(model.parameters(), lr=0.03)
        for epoch in range(3):
            clicks, nll = 0, 0.0
            for batch in stream:
                adam.zero_grad()
                loss = nn.functional.binary_cross_entropy_with_logits(model(batch), batch.liked)
                loss.backward()
                adam.step()
                clicks += batch.liked.numel()
                nll += loss.item() * batch.liked.numel()
            print(epoch, clicks, nll / clicks)
        del stream
