# which of two radio hosts said it? short sentences, bucketed by length to waste less padding
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 30


class Sentences(Dataset):
    def __init__(self, sentences, hosts):
        self.sentences = sentences
        self.hosts = hosts

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, index):
        words = torch.zeros(12, dtype=torch.long)
        given = self.sentences[index]
        words[:len(given)] = torch.tensor(given)
        return words, self.hosts[index]


def record(n, rnd):
    sentences, hosts = [], []
    for _ in range(n):
        host = rnd.randrange(2)
        favourite = range(1, 18) if host else range(12, VOCABULARY)
        sentences.append([rnd.choice(favourite) for _ in range(rnd.randint(3, 12))])
        hosts.append(host)
    return sentences, hosts


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16, padding_idx=0)
        self.head = nn.Linear(16, 2)

    def forward(self, words):
        count = (words > 0).sum(1, keepdim=True)
        return self.head(self.embed(words).sum(1) / count)


def main():
    rnd = random.Random(5)
    torch.manual_seed(5)
    sentences, hosts = record(400, rnd)
    pairs = sorted(zip(sentences, hosts), key=lambda pair: len(pair[0]))
    sentences, hosts = [s for s, _ in pairs], [h for _, h in pairs]
    loader = DataLoader(Sentences(sentences, hosts), batch_size=20, shuffle=True)
    model = Bag()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(4):
        right = 0
        for words, host in loader:
            logits = model(words)
            loss = nn.functional.cross_entropy(logits, host)
            opt.zero_grad()
            loss.backward()
            opt.step()
            right += (logits.argmax(1) == host).sum().item()
        print(f"epoch {epoch}: {right / 400:.3f}")


if __name__ == "__main__":
    main()
