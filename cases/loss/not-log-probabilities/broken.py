import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader


class BagOfWords(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_class):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab_size, embed_dim, mode="mean")
        self.fc = nn.Linear(embed_dim, num_class)

    def forward(self, text, offsets):
        embedded = self.embedding(text, offsets)
        return F.softmax(self.fc(embedded), dim=1)  # ORIGIN


def make_docs(n, vocab, topics):
    """Each topic prefers its own slice of the vocabulary."""
    docs = []
    width = vocab // topics
    for _ in range(n):
        topic = torch.randint(0, topics, ()).item()
        length = torch.randint(6, 20, ()).item()
        own = torch.randint(topic * width, (topic + 1) * width, (length,))
        other = torch.randint(0, vocab, (length,))
        docs.append((torch.where(torch.rand(length) < 0.5, own, other), topic))
    return docs


def collate_batch(batch):
    texts = [t for t, _ in batch]
    labels = torch.tensor([lab for _, lab in batch])
    offsets = torch.tensor([0] + [len(t) for t in texts[:-1]]).cumsum(0)
    return torch.cat(texts), offsets, labels


def train():
    torch.manual_seed(8)
    docs = make_docs(320, vocab=80, topics=4)
    loader = DataLoader(docs, batch_size=32, shuffle=True, collate_fn=collate_batch)
    model = BagOfWords(80, 16, 4)
    criterion = nn.NLLLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(1, 6):
        total, acc = 0.0, 0
        for text, offsets, labels in loader:
            optimizer.zero_grad()
            pred = model(text, offsets)
            loss = criterion(pred, labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
            acc += (pred.argmax(1) == labels).sum().item()
        print(f"epoch {epoch} | loss {total / len(loader):.4f} | acc {acc / len(docs):.3f}")


if __name__ == "__main__":
    train()
