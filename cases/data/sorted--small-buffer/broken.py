"""Leaf spots: six diseases, one folder of feature files each, read as a stream and mixed on the way."""

import json
import random
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset

DISEASES = ["anthracnose", "blight", "canker", "mildew", "rust", "scab"]


def write_folder(root, per_disease=120, features=10):
    rng = random.Random(5)
    for name in DISEASES:
        centre = [rng.gauss(0, 1.5) for _ in range(features)]
        lines = [json.dumps([c + rng.gauss(0, 1) for c in centre]) for _ in range(per_disease)]
        (root / f"{name}.jsonl").write_text("\n".join(lines))


class Leaves(IterableDataset):
    def __init__(self, root):
        self.files = sorted(root.glob("*.jsonl"))

    def __iter__(self):
        for path in self.files:
            label = DISEASES.index(path.stem)
            for line in path.read_text().splitlines():
                yield torch.tensor(json.loads(line)), label


class Mixed(IterableDataset):
    """Fills a buffer, and from then on gives a random one of it for each that comes in."""

    def __init__(self, source, buffer_size):
        self.source = source
        self.buffer_size = buffer_size

    def __iter__(self):
        buffer = []
        for sample in self.source:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
                continue
            place = random.randrange(len(buffer))
            yield buffer[place]
            buffer[place] = sample
        random.shuffle(buffer)
        yield from buffer


def main():
    torch.manual_seed(5)
    random.seed(5)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_folder(root)
        loader = DataLoader(Mixed(Leaves(root), buffer_size=24), batch_size=16)  # ORIGIN
        model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, len(DISEASES)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for epoch in range(3):
            right = count = 0
            for features, disease in loader:
                scores = model(features)
                optimizer.zero_grad()
                F.cross_entropy(scores, disease).backward()
                optimizer.step()
                right += (scores.argmax(1) == disease).sum().item()
                count += len(disease)
            print(f"epoch {epoch}: {right / count:.3f} right")


if __name__ == "__main__":
    main()
