"""Route a support ticket by the average of its word vectors."""
import random

import torch
from torch import nn
from torch.utils.data import DataLoader

QUEUES = {"billing": ["invoice", "refund", "card", "price"], "tech": ["crash", "error", "login", "slow"],
          "sales": ["demo", "quote", "upgrade", "seats"]}
VOCAB = [w for words in QUEUES.values() for w in words]
VECTORS = {w: torch.randn(10, generator=torch.Generator().manual_seed(k)) for k, w in enumerate(VOCAB)}


def tickets(n):
    rnd = random.Random(12)
    out = []
    for k in range(n):
        label, words = rnd.choice(list(enumerate(QUEUES.values())))
        text = [rnd.choice(words) for _ in range(rnd.randint(2, 6))]
        out.append((text, label))
    out[37] = (["hola", "ayuda"], 1)
    return out


def collate(samples):
    rows, labels = [], []
    for words, label in samples:
        known = [VECTORS[w] for w in words if w in VECTORS]
        total = sum(known, torch.zeros(10))
        rows.append(total / len(known))  # ORIGIN
        labels.append(label)
    return torch.stack(rows), torch.tensor(labels)


def accuracy(model, loader):
    with torch.no_grad():
        pairs = [(model(x).argmax(1), y) for x, y in loader]
    return torch.cat([p == y for p, y in pairs]).float().mean().item()


def main():
    torch.manual_seed(2)
    loader = DataLoader(tickets(90), batch_size=9, shuffle=True, collate_fn=collate)
    model = nn.Linear(10, len(QUEUES))
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    for epoch in range(3):
        losses = []
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.3f} acc {accuracy(model, loader):.2f}")


if __name__ == "__main__":
    main()
