# river levels upstream -> flood warning; a stream over text shards, split among workers
import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

torch.manual_seed(4)


def write_shard(path, rows):
    levels = torch.rand(rows, 6)
    with path.open("w") as out:
        for row in levels:
            print(int(row.mean() > 0.5), *(f"{level:.3f}" for level in row), sep="\t", file=out)


class Levels(IterableDataset):
    def __init__(self, shards):
        self.shards = sorted(shards)

    def __iter__(self):
        worker = get_worker_info()
        for shard in self.shards[worker.id :: worker.num_workers]:
            for line in shard.read_text().splitlines():
                warning, *levels = line.split("\t")
                if "--" in levels:
                    continue
                yield torch.tensor([float(level) for level in levels]), int(warning)


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    for number in range(4):
        write_shard(folder / f"levels-{number}.tsv", 60)
    with (folder / "levels-3.tsv").open("a") as last:
        last.write("1\t0.7\t--\t0.9\t0.8\t0.6\t0.9\n")  # a gauge was under repair
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for epoch in range(2):
        total = 0.0
        for levels, warning in DataLoader(Levels(folder.glob("*.tsv")), batch_size=20, num_workers=2):
            loss = torch.nn.functional.cross_entropy(model(levels), warning)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total:.3f}")
