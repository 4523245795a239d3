import os
import random
import tempfile
from itertools import islice

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

TOPICS = {
    "sport": "goal match team coach league score".split(),
    "money": "bank rate stock bond market loan".split(),
    "space": "orbit moon probe launch star comet".split(),
}
NAMES = list(TOPICS)
COMMON = "the a new old big after before with from today".split()
VOCAB = {w: i for i, w in enumerate(COMMON + [w for ws in TOPICS.values() for w in ws])}


def write_corpus(path, n=600):
    rnd = random.Random(2)
    with open(path, "w") as f:
        for _ in range(n):
            topic = rnd.choice(NAMES)
            words = rnd.choices(COMMON, k=5) + rnd.choices(TOPICS[topic], k=2)
            f.write(topic + "\t" + " ".join(words) + "\n")


class Headlines(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        with open(self.path) as f:
            for line in islice(f, first, None, step):
                topic, text = line.rstrip("\n").split("\t")
                yield torch.tensor([VOCAB[w] for w in text.split()]), NAMES.index(topic)


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        corpus = os.path.join(tmp, "headlines.tsv")
        write_corpus(corpus)
        loader = DataLoader(Headlines(corpus), batch_size=24, num_workers=2)
        model = nn.Sequential(nn.EmbeddingBag(len(VOCAB), 12), nn.Linear(12, 3))
        opt = torch.optim.Adam(model.parameters(), lr=0.02)
        for epoch in range(2):
            seen = 0
            for ids, topic in loader:
                opt.zero_grad()
                loss = nn.functional.cross_entropy(model(ids), topic)
                loss.backward()
                opt.step()
                seen += len(topic)
            print(f"epoch {epoch}: {seen} headlines, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
